// Package storetest holds what every node store must do, as tests: [Run] is the contract of package store,
// sentence by sentence. An implementation passes it in its own test:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return openSomething(t) })
//	}
//
// [Memory] is a store for the tests of other packages: brute force over a map, so that a reader can see that it
// is right. [Flaky] wraps a store and makes its calls fail, before their effect or after it, by a schedule.
//
// The suite asks for a new store in each of its tests. A backend that is shared between them works too, since
// no two tests use the same corpus.
package storetest
