package readers

import (
	"context"
	"encoding/xml"
	"errors"
	"net/url"
	"path"
	"strings"
)

// readEpub reads the chapters of a book in its order.
func readEpub(ctx context.Context, data []byte, t Tools) (Result, error) {
	a, err := openArchive(data)
	if err != nil {
		return Result{}, err
	}
	if a.has("META-INF/encryption.xml") && a.has("META-INF/rights.xml") {
		return Result{}, errors.New("it is protected against copying")
	}
	var container struct {
		Roots []struct {
			Path string `xml:"full-path,attr"`
		} `xml:"rootfiles>rootfile"`
	}
	if err := a.decode("META-INF/container.xml", &container); err != nil {
		return Result{}, err
	}
	if len(container.Roots) == 0 {
		return Result{}, errors.New("it names no book")
	}
	root := strings.TrimPrefix(path.Clean(container.Roots[0].Path), "/")
	var book struct {
		XMLName  xml.Name `xml:"package"`
		Title    []string `xml:"metadata>title"`
		Creator  []string `xml:"metadata>creator"`
		Language []string `xml:"metadata>language"`
		Items    []struct {
			ID    string `xml:"id,attr"`
			Href  string `xml:"href,attr"`
			Type  string `xml:"media-type,attr"`
			Roles string `xml:"properties,attr"`
		} `xml:"manifest>item"`
		Spine []struct {
			ID     string `xml:"idref,attr"`
			Linear string `xml:"linear,attr"`
		} `xml:"spine>itemref"`
	}
	if err := a.decode(root, &book); err != nil {
		return Result{}, err
	}
	pages := map[string]string{}
	for _, item := range book.Items {
		if (item.Type == "application/xhtml+xml" || item.Type == "text/html") && !strings.Contains(" "+item.Roles+" ", " nav ") {
			href, err := url.PathUnescape(item.Href)
			if err != nil {
				href = item.Href
			}
			pages[item.ID] = path.Join(path.Dir(root), href)
		}
	}
	var out Result
	var chapters []string
	for _, item := range book.Spine {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		name, ok := pages[item.ID]
		if !ok {
			continue
		}
		page, err := a.read(name)
		if errors.Is(err, errBomb) {
			return Result{}, err
		}
		var text string
		if err == nil {
			text, err = t.HTML(page)
		}
		if err != nil {
			out.Notes = append(out.Notes, name+": "+err.Error())
			continue
		}
		if strings.TrimSpace(text) != "" {
			chapters = append(chapters, text)
		}
	}
	if len(chapters) == 0 {
		return Result{}, errNoText
	}
	metadata := map[string]any{}
	for key, values := range map[string][]string{"title": book.Title, "author": book.Creator, "language": book.Language} {
		if len(values) > 0 && strings.TrimSpace(values[0]) != "" {
			metadata[key] = strings.TrimSpace(values[0])
		}
	}
	if len(metadata) == 0 {
		metadata = nil
	}
	out.Parts = []Part{{Text: strings.Join(chapters, "\n\n"), Metadata: metadata}}
	return out, nil
}
