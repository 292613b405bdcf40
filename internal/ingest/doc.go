// Package ingest brings documents into a corpus and takes them out: it reads, cuts, embeds and stores leaves.
//
// # What is written
//
// A leaf's id is a function of corpus, document, place and text ([tree.LeafID]), so ingesting the same text again finds its
// leaves in the store and neither embeds nor writes them. The same text elsewhere in the same document is the same leaf, with
// the id of its first place. Of a changed document only the leaves that are new are embedded;
// those that its new version lacks are removed after the new ones stand. A run that was interrupted is completed by
// running it again, at no second cost.
//
// # Removal while a build is open
//
// A build reads the leaves that its plan was made from. Leaves that must go are therefore first set to Died = [tree.Deleted], which
// no reader sees, and deleted only under the right to builds, which is asked for without waiting ([Config].Erase). Where a build
// holds it, or is open, they go when the build has ended. A leaf that comes back before that is set alive again.
//
// # One at a time
//
// Ingest and deletion compare what is stored with what is wanted, so two of a corpus at a time would lose documents. Whoever calls
// them holds the right to the corpus's documents ([levels.RightDocuments]), and gives a store that writes only while it stands.
//
// # Growth
//
// The corpus record counts changed leaves ([levels.Corpus].Changes): for one document the larger of the leaves added and
// removed. It is raised before the leaves are written, since after a crash a count that is too high costs an early build at
// worst, and one that is too low would hide growth for ever.
//
// # One model to a corpus
//
// The first vector pins the embedder's name and the width in the corpus record. Vectors of another name or width are refused
// before anything is written. See [levels.Given] for vectors that the caller brings.
package ingest
