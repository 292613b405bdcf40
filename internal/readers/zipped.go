package readers

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/net/html/charset"
)

// The most that an archive may hold once it is unpacked: all of what is read of it, and how many files it lists.
const (
	mostUnpacked = 256 << 20
	mostEntries  = 100_000
)

// archive is a zip file of which a bounded number of bytes is unpacked.
type archive struct {
	files map[string]*zip.File
	left  int64
}

func openArchive(data []byte) (*archive, error) {
	if bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0")) {
		return nil, errors.New("it is encrypted, or of the format before 2007; save it anew without a password, as .docx, .pptx or .xlsx")
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("it is broken: %w", err)
	}
	if len(z.File) > mostEntries {
		return nil, fmt.Errorf("it lists %d files; at most %d are looked at", len(z.File), mostEntries)
	}
	a := &archive{files: map[string]*zip.File{}, left: mostUnpacked}
	for _, f := range z.File {
		a.files[strings.TrimPrefix(f.Name, "/")] = f
	}
	return a, nil
}

// errBomb: what would be unpacked is too much.
var errBomb = fmt.Errorf("it unpacks to more than %d MiB", mostUnpacked>>20)

func (a *archive) has(name string) bool { return a.files[name] != nil }

// read unpacks one file.
func (a *archive) read(name string) ([]byte, error) {
	f := a.files[name]
	if f == nil {
		return nil, fmt.Errorf("it lacks %s", name)
	}
	if int64(f.UncompressedSize64) > a.left {
		return nil, errBomb
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, a.left+1))
	if int64(len(data)) > a.left {
		return nil, errBomb
	}
	a.left -= int64(len(data))
	if err != nil {
		return nil, fmt.Errorf("%s is broken: %w", name, err)
	}
	return data, nil
}

// xmlDecoder reads XML of any encoding that it names.
func xmlDecoder(data []byte) *xml.Decoder {
	d := xml.NewDecoder(bytes.NewReader(data))
	d.CharsetReader = charset.NewReaderLabel
	d.Strict = false
	d.Entity = xml.HTMLEntity
	return d
}

// decode reads a small XML file into a value.
func (a *archive) decode(name string, into any) error {
	data, err := a.read(name)
	if err != nil {
		return err
	}
	if err := xmlDecoder(data).Decode(into); err != nil {
		return fmt.Errorf("%s is broken: %w", name, err)
	}
	return nil
}

// relations returns the targets of an Office file's part by id, and in order those of a kind.
func (a *archive) relations(part string) (targets map[string]string, kinds map[string]string) {
	targets, kinds = map[string]string{}, map[string]string{}
	dir, name := path.Split(part)
	var rels struct {
		All []struct {
			ID     string `xml:"Id,attr"`
			Type   string `xml:"Type,attr"`
			Target string `xml:"Target,attr"`
			Mode   string `xml:"TargetMode,attr"`
		} `xml:"Relationship"`
	}
	if a.decode(dir+"_rels/"+name+".rels", &rels) != nil { // a part need not have any
		return targets, kinds
	}
	for _, r := range rels.All {
		if r.Mode == "External" {
			continue
		}
		target := path.Join(dir, r.Target)
		if strings.HasPrefix(r.Target, "/") {
			target = strings.TrimPrefix(path.Clean(r.Target), "/")
		}
		targets[r.ID], kinds[r.ID] = target, r.Type[strings.LastIndexByte(r.Type, '/')+1:]
	}
	return targets, kinds
}

// attr returns an attribute by its local name.
func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
