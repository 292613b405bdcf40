package corpus

// Chunk is a piece of a text.
type Chunk struct {
	// Text is text[Start:End] of what was cut. It begins and ends with something other than white space, but for
	// the indentation of a first line of code.
	Text       string
	Start, End int
	Tokens     int // of Text
}
