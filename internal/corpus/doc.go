// Package corpus turns what people have into documents and leaves: it reads files, folders and rows, counts tokens, and
// cuts text.
//
// # Reading
//
// [Read] streams documents from Markdown, reStructuredText, plain text and HTML files, and ready-made chunks from JSONL,
// each also compressed. What can't be used is reported with its place and counted, and the rest goes on: see [Problem] and
// [Skip]. Nothing is ever decoded by guesswork: text that isn't UTF-8 is refused, HTML excepted, which names its encoding.
//
// # Counting
//
// [Counter] counts tokens offline as o200k_base does. The counts of a corpus are therefore the same everywhere and for ever,
// whatever model embeds or summarizes it.
//
// # Cutting
//
// [Split] cuts a text into chunks of at most a budget of tokens. It first finds the blocks (headings, paragraphs, list items,
// tables, code), then the sentences of the prose, by the Unicode rules with the abbreviations put back, and packs whole
// sentences. Every chunk is a piece of the text as it is: the chunks in order hold every character but for white space between
// them, once.
package corpus
