package readers

import "context"

func readPlain(_ context.Context, data []byte, t Tools) (Result, error) {
	text, line, err := Decode(data, t.Encoding)
	if err != nil {
		return Result{}, atLine(line, err)
	}
	return Result{Parts: []Part{{Text: text}}}, nil
}

func readHTML(_ context.Context, data []byte, t Tools) (Result, error) {
	if t.Encoding != "" {
		text, line, err := Decode(data, t.Encoding)
		if err != nil {
			return Result{}, atLine(line, err)
		}
		data = []byte(text)
	}
	text, err := t.HTML(data)
	return Result{Parts: []Part{{Text: text}}}, err
}

// all is filled here, in the order of help.
var all []Reader

func init() {
	all = []Reader{
		{Name: "markdown", Extensions: []string{".md", ".markdown", ".mdx"}, About: "Markdown; front matter becomes metadata", Read: readMarkdown},
		{Name: "text", Extensions: []string{".txt", ".text", ".rst", ".adoc", ".asciidoc", ".org", ".tex", ".log"}, About: "plain text, reStructuredText, AsciiDoc", Read: readPlain},
		{Name: "html", Extensions: []string{".html", ".htm", ".xhtml"}, About: "pages", Read: readHTML},
		{Name: "pdf", Extensions: []string{".pdf"}, About: "PDF that holds text, not pictures of it", Read: readPDF},
		{Name: "docx", Extensions: []string{".docx", ".docm"}, About: "Word", Read: readDocx},
		{Name: "pptx", Extensions: []string{".pptx", ".pptm"}, About: "PowerPoint, with notes", Read: readPptx},
		{Name: "xlsx", Extensions: []string{".xlsx", ".xlsm"}, About: "Excel; a row is a leaf", Read: readXlsx},
		{Name: "epub", Extensions: []string{".epub"}, About: "books", Read: readEpub},
		{Name: "csv", Extensions: []string{".csv"}, About: "tables; a row is a leaf", Read: readTable(',')},
		{Name: "tsv", Extensions: []string{".tsv", ".tab"}, About: "the same with tabs", Read: readTable('\t')},
		{Name: "json", Extensions: []string{".json"}, About: "an array of rows as JSONL has them, or any other value as text", Read: readJSON},
		{Name: "parquet", Extensions: []string{".parquet"}, About: "rows as JSONL has them, with vectors or without", Read: readParquet},
		{Name: "notebook", Extensions: []string{".ipynb"}, About: "Jupyter notebooks: prose, code, printed text", Read: readNotebook},
		{Name: "mail", Extensions: []string{".eml"}, About: "a message", Read: readMail},
		{Name: "mailbox", Extensions: []string{".mbox"}, About: "messages; each is a document", Read: readMailbox},
		{Name: "subtitles", Extensions: []string{".srt", ".vtt"}, About: "what is said, without times", Read: readSubtitles},
		{Name: "code", Extensions: codeExtensions, About: "program code, cut between declarations", Code: true, Read: readPlain},
	}
}

var codeExtensions = []string{
	".go", ".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".kts", ".scala", ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".cs", ".fs",
	".rs", ".rb", ".php", ".swift", ".m", ".mm", ".lua", ".pl", ".pm", ".r", ".jl", ".hs", ".ml", ".ex", ".exs", ".erl", ".clj", ".el", ".sh", ".bash", ".ps1",
	".sql", ".proto", ".tf", ".zig", ".dart", ".vue", ".svelte", ".css", ".scss",
}
