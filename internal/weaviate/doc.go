// Package weaviate keeps nodes in Weaviate: the store of a fleet.
//
// # Layout
//
// A corpus is one collection, named by [Config.Prefix] and the corpus (see [CollectionName]). Its whole schema is
// created up front, with its first node: auto-schema would guess types and would cut keys into words. A node is an
// object under its own id with one unnamed vector, cosine distance. The collection's description holds the corpus's
// name and the width of its vectors, because the server itself accepts objects without a vector, and of several widths.
//
// The properties are text, document_id, chunk_index, raptor_level, raptor_cluster_id, raptor_child_ids, scope, tokens,
// born, died, recipe and n_leaves. Keys are indexed whole (tokenization "field"), born and died by range.
//
// Each metadata key of the caller's is a property too, created when the first leaf with it arrives, so that other
// clients of Weaviate read and filter it under its own name. A key gets another name, meta_<type>_<key>, when it is no
// name for a property (it must begin with a-z), when the name is taken by one of aerie's own or by a key that differs
// in case only, or when the key already came with a value of another type: a property of Weaviate has one. The types
// are text, number, boolean and, for lists, texts, numbers, booleans. In <key> every character but a-z and 0-9 is
// escaped: "_" as "__", a capital A as "_ua", any other byte as "_x" and two hexadecimal digits.
//
// # Words
//
// Weaviate's keyword index takes a text apart at everything that is no letter and no digit. That suits most languages;
// Chinese, Japanese, Thai and others would become words as long as sentences. What it misses of such a text, pairs of
// neighboring characters and letters in their plain form, is put into one more property, words, which is created when
// the first text needs it. English text needs none.
//
// # Wire
//
// Schema and single objects go over REST through weaviate-go-client/v4; searches, batches and bulk deletes go over
// gRPC through the stubs that come with it, on a connection of our own: the client's doesn't verify certificates,
// carries no tokens and stops at messages of 4 MiB. GraphQL is never used, since Weaviate is removing it.
//
// Every operation may be repeated, so a call that fails while the server is away is repeated for [Config.Patience];
// then it fails with [ErrUnavailable].
//
// # What Weaviate can't do
//
//   - It has no snapshots. [Store.Each] copies what it selects, to memory or to a file, before it calls fn: a node that is
//     written while the copy is made may be in it or not, and one that was there throughout is in it exactly once.
//   - A search answers with at most 10,000 hits; a larger limit is refused. Ties that reach beyond these are not broken by
//     id.
//   - Above about 40,000 nodes its vector search is approximate.
//   - With asynchronous indexing (ASYNC_INDEXING), a search doesn't see a node at once. [Store.Warnings] can't tell; our
//     own stack runs without.
package weaviate
