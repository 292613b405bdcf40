// Package mcp lets agents read corpora over the Model Context Protocol (modelcontextprotocol.io): tools that search, fetch, outline
// and tell how builds are, and one that answers, which is offered only where it is allowed, since it spends.
//
// Everything is read-only. What a tool returns is bounded in tokens and names the next step; texts of documents and models are
// passed on as text, never as instructions.
package mcp
