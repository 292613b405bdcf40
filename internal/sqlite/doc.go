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
// reads queries. That is what makes scripts without spaces searchable. FTS5 keeps the index; the postings are read from
// its tables and scored here, which is thirty times as fast as its own ranking when a word is common.
//
// # Vectors
//
// Search is exact. The vectors stand in the file as the record, and once more in a sidecar, vectors-<corpus>.f32,
// that is mapped into memory. Of each node, what filters need is kept in memory too (see table), and in a snapshot,
// nodes-<corpus>.tab, for the next process. Both files are caches: any process extends or replaces them, and they may
// be deleted while none runs. Searches see exactly the state of the database when they began, whatever the caches hold.
//
// # Deleting
//
// What is deleted is overwritten: rows by secure_delete, words by FTS5's secure-delete. Copies that a page kept when
// rows moved within the file go with the next VACUUM, which is left to the operator; texts are blanked first, so that no
// new copies come into being.
package sqlite
