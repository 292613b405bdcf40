package readers

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
)

// deepestMail is how far the parts of a message may nest.
const deepestMail = 16

// readMail reads one message: its subject and people, then what it says. Attachments are named.
func readMail(_ context.Context, data []byte, t Tools) (Result, error) {
	text, metadata, err := message(data, t)
	if err != nil {
		return Result{}, err
	}
	return Result{Parts: []Part{{Text: text, Metadata: metadata}}}, nil
}

// readMailbox reads messages one after the other, each begun by a line "From ".
func readMailbox(ctx context.Context, data []byte, t Tools) (Result, error) {
	if !bytes.HasPrefix(data, []byte("From ")) {
		return Result{}, errors.New(`it is no mailbox: its first line doesn't begin with "From "`)
	}
	var out Result
	names := map[string]int{}
	for n := 1; len(data) > 0; n++ {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		_, data, _ = bytes.Cut(data, []byte("\n"))
		raw := data
		if end := bytes.Index(data, []byte("\n\nFrom ")); end >= 0 {
			raw, data = data[:end+1], data[end+2:]
		} else if end := bytes.Index(data, []byte("\r\n\r\nFrom ")); end >= 0 {
			raw, data = data[:end+2], data[end+4:]
		} else {
			data = nil
		}
		text, metadata, err := message(bytes.ReplaceAll(raw, []byte("\n>From "), []byte("\nFrom ")), t)
		if err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("message %d: %v", n, err))
			continue
		}
		name := fmt.Sprint(n)
		if id, ok := metadata["message_id"].(string); ok && names[id] == 0 {
			name = id // stays the same when messages before it are gone
		}
		names[name]++
		out.Parts = append(out.Parts, Part{Name: name, Text: text, Metadata: metadata})
	}
	if len(out.Parts) == 0 {
		return Result{}, errNoText
	}
	return out, nil
}

var words = &mime.WordDecoder{CharsetReader: charsetReader}

func charsetReader(charset string, in io.Reader) (io.Reader, error) {
	e, err := htmlindex.Get(charset)
	if err != nil {
		return nil, fmt.Errorf("the encoding %q is not known", charset)
	}
	return e.NewDecoder().Reader(in), nil
}

func message(data []byte, t Tools) (text string, metadata map[string]any, err error) {
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return "", nil, fmt.Errorf("it is no e-mail: %w", err)
	}
	metadata = map[string]any{}
	var head []string
	for _, h := range []struct{ header, key, label string }{
		{"Subject", "subject", "#"}, {"From", "from", "From:"}, {"To", "to", "To:"}, {"Cc", "cc", "Cc:"}, {"Date", "date", "Date:"}, {"Message-Id", "message_id", ""},
	} {
		value := strings.TrimSpace(m.Header.Get(h.header))
		if decoded, err := words.DecodeHeader(value); err == nil {
			value = decoded
		}
		if value = strings.ToValidUTF8(value, "\ufffd"); value == "" || strings.ContainsRune(value, 0) {
			continue
		}
		metadata[h.key] = strings.Trim(value, "<>")
		if h.label == "#" {
			head = append(head, "# "+value, "")
		} else if h.label != "" {
			head = append(head, h.label+" "+value)
		}
	}
	b := &body{tools: t}
	if err := b.part(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), "", m.Body, 0); err != nil {
		return "", nil, err
	}
	said := strings.TrimSpace(b.plain.String())
	if said == "" {
		said = strings.TrimSpace(b.html.String())
	}
	if len(b.attached) > 0 {
		said += "\n\nAttachments: " + strings.Join(b.attached, ", ")
	}
	if said == "" && len(head) == 0 {
		return "", nil, errNoText
	}
	return strings.Join(head, "\n") + "\n\n" + said, metadata, nil
}

// body collects what a message says: plain text, or, where there is none, pages.
type body struct {
	tools    Tools
	plain    strings.Builder
	html     strings.Builder
	attached []string
}

func (b *body) part(contentType, transfer, disposition string, in io.Reader, depth int) error {
	if depth > deepestMail {
		return fmt.Errorf("its parts nest deeper than %d levels", deepestMail)
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, params = "text/plain", map[string]string{}
	}
	if strings.HasPrefix(kind, "multipart/") && params["boundary"] != "" {
		return b.parts(multipart.NewReader(in, params["boundary"]), depth)
	}
	how, place, _ := mime.ParseMediaType(disposition)
	name := place["filename"]
	if name == "" {
		name = params["name"]
	}
	if decoded, err := words.DecodeHeader(name); err == nil {
		name = decoded
	}
	if how == "attachment" || name != "" || !strings.HasPrefix(kind, "text/") && kind != "message/rfc822" {
		if name != "" {
			b.attached = append(b.attached, strings.ToValidUTF8(name, "\ufffd"))
		}
		return nil
	}
	switch strings.ToLower(strings.TrimSpace(transfer)) {
	case "base64":
		in = base64.NewDecoder(base64.StdEncoding, in)
	case "quoted-printable":
		in = quotedprintable.NewReader(in)
	}
	data, err := io.ReadAll(in)
	if err != nil && len(data) == 0 {
		return fmt.Errorf("one of its parts can't be decoded: %w", err)
	}
	if kind == "message/rfc822" {
		text, _, err := message(data, b.tools)
		if err == nil {
			b.plain.WriteString("\n\n" + text)
		}
		return nil
	}
	text := b.decode(data, params["charset"])
	if kind == "text/html" {
		page, err := b.tools.HTML([]byte(text))
		if err != nil {
			return err
		}
		b.html.WriteString(page + "\n\n")
		return nil
	}
	b.plain.WriteString(text + "\n\n")
	return nil
}

// decode reads the text of a part by the encoding that it names, or as UTF-8; what is damaged shows as such.
func (b *body) decode(data []byte, charset string) string {
	if e, err := htmlindex.Get(charset); charset != "" && err == nil {
		if decoded, err := e.NewDecoder().Bytes(data); err == nil {
			data = decoded
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(data), "\ufffd"), "\x00", "")
}

func (b *body) parts(parts *multipart.Reader, depth int) error {
	for {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if b.plain.Len()+b.html.Len() > 0 { // the end is missing, as in many mailboxes
				return nil
			}
			return fmt.Errorf("its parts can't be told apart: %w", err)
		}
		if err := b.part(p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p.Header.Get("Content-Disposition"), p, depth+1); err != nil {
			return err
		}
	}
}
