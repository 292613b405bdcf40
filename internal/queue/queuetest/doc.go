// Package queuetest helps to test what speaks to the ports of package queue, and the adapters behind them.
//
//   - [Run] and [JournalSuite] are the contract suites. Every implementation runs them.
//   - [Memory] and [MemoryJournal] are implementations that pass them, for tests that need no disk.
//   - [Flaky] decorates any queue with the faults of a network: errors before and after the effect, duplicate
//     deliveries, lost leases.
package queuetest
