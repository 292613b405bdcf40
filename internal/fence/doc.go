// Package fence keeps the right to change a part of a corpus, and holds every change to it.
//
// A writer takes a lease ([levels.Leases]) and keeps it by renewing it ([Take]). What it writes to the node store goes through
// [Hold.Store], and anything else through [Hold.Do]: each change begins only while the lease stands, both by this process's clock
// and by what the place of leases says at that moment, and is cut off when the lease ends. A process that was paused, or cut off
// from the place of leases, therefore stops before another one can begin: its own time ends a sixth of the lease earlier than the
// lease does, for what is on its way by then.
//
// Where leases and nodes are in one file ([levels.LeasesOf]), the change itself is refused in the same transaction. Between servers
// no transaction spans both; docs/failure.md says, effect by effect, what closes the gap.
package fence
