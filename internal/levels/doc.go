// Package levels decides what happens next in a build, and keeps no state of its own: no I/O, no clock, no
// goroutine.
//
// # The machine
//
// A build climbs level by level. A level is planned (its clusters are frozen in a [Plan]), published (its tasks are
// queued), open (workers settle the tasks, the [Barrier] counts) and sealed. When no further level makes sense the
// tree is published as a new generation.
//
//	level: planning → publishing → open → sealed
//	build: running → publishing-tree → done | degraded | failed | cancelled | paused
//
// [State.Step] takes an [Event], something that has become true and durable, and returns in [Ready] what the caller
// must do: save the state first, then the one next [Action]. An event that comes twice, or late, changes nothing, so
// a caller that was killed at any point loads the state, asks [State.Next] and goes on.
//
// Nothing else changes a state once it is made; a test of package policy looks. Three fields are bookkeeping of whoever saves it:
// Epoch, the lease's, which fences a stale saver off and is a floor for the next lease; Version, which says of two copies which is
// newer; and Updated, the time. Step reads none of them, so a stamp that is early, late or lost changes no decision of its; Updated
// only delays when a build that rests is tried again.
//
// # Ports
//
// What the caller keeps the facts in stands behind [Barrier], [Builds], [Corpora] and [Plans]. Package leveltest
// holds the contract suites.
//
// # Growth
//
// [Rule.Decide] says whether a build is due: by how much a corpus has changed since the last published build, never
// because a process started.
package levels
