// Package sqlite keeps everything that aerie knows in one SQLite file, aerie.db in a home folder: nodes with
// their text and vectors, the keyword index, build state, leases, barriers and the records of corpora. It
// implements the ports of packages store and levels for the embedded mode.
//
// # Processes
//
// Several processes may have a home open: a build, a status, an ingest and a query at the same time. The file is
// in WAL mode, so readers never wait. A process has one connection that writes. Every change is one
// transaction that takes the write lock at its start, and the wait for the lock ends with the caller's context
// or after [Config.LockTimeout]; "database is locked" is not seen in normal use.
//
// Changes that arrive while another is being committed are committed together, each in a savepoint of its own
// (see writer). With synchronous=FULL a commit is a sync of the disk, and what was reported as written survives a
// power failure.
//
// # Nodes
//
// A node's row number is its corpus's number, shifted left by 40 bits, plus a sequence number that grows with every
// insertion and is never used again. So one corpus is one range of each table, and the nodes that are newer than
// anything seen so far are found without an index.
//
// # Keywords
//
// Each corpus has an FTS5 table of its own, so that BM25 counts words in that corpus only. It is contentless:
// the text stands in the texts table, and the index is fed with the words of package-private segment, which also
// reads queries. That is what makes scripts without spaces searchable.
//
// # Vectors
//
// Search is exact. The vectors stand in the file as the record, and once more in a sidecar that is mapped into
// memory, a cache that any process may extend or rebuild.
package sqlite
