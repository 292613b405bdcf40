package service

import (
	"encoding/base64"
	"encoding/json"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/tree"
)

// afterDocument is the place of a document in the list.
type afterDocument struct {
	ID string `json:"i"`
}

// afterNode is the place of a node in one generation.
type afterNode struct {
	Generation int     `json:"g"`
	Level      int     `json:"l"`
	ID         tree.ID `json:"i"`
}

// cursor encodes a place in a list. Nobody but the service reads it.
func cursor(place any) string {
	data, err := json.Marshal(place)
	if err != nil {
		panic("a place always encodes: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// readCursor decodes what cursor has made; "" leaves the place as it is.
func readCursor(text string, place any) error {
	if text == "" {
		return nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, place)
	}
	if err != nil {
		return api.Usagef("take next_cursor of the page before as it is", "cursor is %q, which no page has given", text)
	}
	return nil
}
