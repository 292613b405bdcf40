package weaviate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weaviate/weaviate/entities/models"

	"github.com/aerie-rag/aerie/internal/store"
)

// The names of aerie's own properties.
const (
	propText       = "text"
	propDocument   = "document_id"
	propChunk      = "chunk_index"
	propLevel      = "raptor_level"
	propCluster    = "raptor_cluster_id"
	propChildren   = "raptor_child_ids"
	propScope      = "scope"
	propTokens     = "tokens"
	propBorn       = "born"
	propDied       = "died"
	propRecipe     = "recipe"
	propLeaves     = "n_leaves"
	propAuthor     = "raptor_author" // "author" is a common key of metadata
	propUnseen     = "raptor_unseen_tokens"
	propFormed     = "raptor_formed_tokens"
	propSource     = "raptor_source"
	propPath       = "raptor_path"
	propUpdated    = "raptor_updated"
	propContext    = "raptor_context"
	propWords      = "words"
	propUntrimmed  = "untrimmed"
	propWordsMark  = "_words_2"    // its number is word.Version
	propChunkLevel = "chunk_level" // of helix
	propRaptor     = "raptor"
	propHelixKids  = "children"
	propNodeJSON   = "_node_content" // of llama_index
	propNodeType   = "_node_type"
	propDocID      = "doc_id"
	propRefDocID   = "ref_doc_id"
)

// column is a property that a collection may have.
type column struct {
	name, dataType       string
	tokenization         string // of a text
	search, filter, span bool   // indexes: words, equal values, ranges
	with                 string // what it is for: empty always, onDemand when a node needs it, else a system of Compat
}

const onDemand = "demand"

var columns = []column{
	{name: propText, dataType: "text", tokenization: "word", search: true},
	{name: propDocument, dataType: "text", tokenization: "field", filter: true},
	{name: propChunk, dataType: "int", filter: true},
	{name: propLevel, dataType: "int", filter: true},
	{name: propCluster, dataType: "text", tokenization: "field", filter: true},
	{name: propChildren, dataType: "text[]", tokenization: "field", filter: true},
	{name: propScope, dataType: "text", tokenization: "field", filter: true},
	{name: propTokens, dataType: "int"},
	{name: propBorn, dataType: "int", span: true},
	{name: propDied, dataType: "int", span: true},
	{name: propRecipe, dataType: "text", tokenization: "field", filter: true},
	{name: propLeaves, dataType: "int"},
	{name: propAuthor, dataType: "text", tokenization: "field", filter: true},
	{name: propUnseen, dataType: "int"},
	{name: propFormed, dataType: "int"},
	{name: propSource, dataType: "text", tokenization: "field", filter: true},
	{name: propPath, dataType: "text", tokenization: "field", filter: true},
	{name: propUpdated, dataType: "int"},
	{name: propContext, dataType: "text", tokenization: "field"}, // its words are in the property words
	{name: propWords, dataType: "text", tokenization: "whitespace", search: true, with: onDemand},
	// A mark, never set: the property words of all nodes is as this version's rules make it; see currentWords.
	{name: propWordsMark, dataType: "boolean", with: onDemand},
	// A mark, never set: some key of the corpus begins or ends with white space, which the index of keys leaves out.
	{name: propUntrimmed, dataType: "boolean", with: onDemand},
	{name: propChunkLevel, dataType: "text", tokenization: "field", filter: true, with: Helix},
	{name: propRaptor, dataType: "text", tokenization: "field", filter: true, with: Helix},
	{name: propHelixKids, dataType: "text", tokenization: "field", with: Helix},
	{name: propNodeJSON, dataType: "text", tokenization: "field", with: LlamaIndex},
	{name: propNodeType, dataType: "text", tokenization: "field", filter: true, with: LlamaIndex},
	{name: propDocID, dataType: "text", tokenization: "field", filter: true, with: LlamaIndex},
	{name: propRefDocID, dataType: "text", tokenization: "field", filter: true, with: LlamaIndex},
}

// isOwn reports whether a property is one of aerie's, or reserved by Weaviate or its clients.
func isOwn(name string) bool {
	switch name {
	case "id", "_id", "_additional", "vector", "vectors":
		return true
	}
	return slices.ContainsFunc(columns, func(c column) bool { return c.name == name })
}

// property returns the column in the server's form.
func (c column) property() *models.Property {
	return &models.Property{
		Name: c.name, DataType: []string{c.dataType}, Tokenization: c.tokenization,
		IndexSearchable: &c.search, IndexFilterable: &c.filter, IndexRangeFilters: &c.span,
	}
}

// collection is what is known of a corpus's collection. It is never changed; a newer one takes its place.
type collection struct {
	name       string
	width      int
	properties map[string]string // their names and types
	blockMax   bool              // the keyword index is of the kind that may lose rare words
	tenant     bool              // the config's tenant exists
	read       time.Time
}

func (c *collection) has(property string) bool { return c.properties[property] != "" }

// label is the collection's description.
type label struct {
	Aerie  int    `json:"aerie"` // the layout's version
	Corpus string `json:"corpus"`
	Width  int    `json:"width"`
}

const layout = 1

// schemaAge is how long a collection is used as last read. Properties that other processes add in the meantime matter to
// filters alone, and what matters at once is read at once.
const schemaAge = 30 * time.Second

// lookup returns a corpus's collection as last read, or reads it; nil if there is none.
func (s *Store) lookup(ctx context.Context, corpus string) (*collection, error) {
	s.mu.Lock()
	c := s.collections[corpus]
	s.mu.Unlock()
	if c != nil && time.Since(c.read) < schemaAge {
		return c, nil
	}
	known := c != nil
	c, err := s.refresh(ctx, corpus)
	if err != nil || c == nil || known || !c.lacks() {
		return c, err
	}
	// An older aerie made it. Nodes that are read by a process that knows less of the schema than their writer would lack
	// what is new, so that the first to look adds it. Who may only read goes on without.
	if newer, err := s.addProperties(ctx, corpus, c, s.missing(c)); err == nil {
		return newer, nil
	}
	return c, ctx.Err()
}

// lacks reports whether the collection was made by an aerie that knew fewer properties.
func (c *collection) lacks() bool {
	return slices.ContainsFunc(columns, func(col column) bool { return col.with == "" && !c.has(col.name) })
}

// missing returns the properties that every collection of the config has and this one lacks.
func (s *Store) missing(c *collection) []*models.Property {
	var missing []*models.Property
	for _, col := range columns {
		if (col.with == "" || s.cfg.compat(col.with)) && !c.has(col.name) {
			missing = append(missing, col.property())
		}
	}
	return missing
}

func isNotFound(err error) bool {
	var answer *statusError
	return errors.As(err, &answer) && answer.code == http.StatusNotFound
}

// refresh reads a corpus's collection; nil if there is none.
func (s *Store) refresh(ctx context.Context, corpus string) (*collection, error) {
	name, err := CollectionName(s.cfg.Prefix, corpus)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	// The client's type of a class lacks usingBlockMaxWAND.
	var class struct {
		Class               string                           `json:"class"`
		Description         string                           `json:"description"`
		Properties          []*models.Property               `json:"properties"`
		InvertedIndexConfig struct{ UsingBlockMaxWAND bool } `json:"invertedIndexConfig"`
		MultiTenancyConfig  struct{ Enabled bool }           `json:"multiTenancyConfig"`
	}
	err = s.getJSON(ctx, "/schema/"+name, &class)
	if isNotFound(err) {
		// A server that has just started knows no collection until it has read its log; then it says that it is ready.
		if err = s.getJSON(ctx, "/.well-known/ready", nil); err == nil {
			err = s.getJSON(ctx, "/schema/"+name, &class)
		}
	}
	if isNotFound(err) {
		s.forget(corpus)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("weaviate: schema of %s: %w", name, err)
	}
	var l label
	if json.Unmarshal([]byte(class.Description), &l) != nil || l.Aerie != layout || l.Corpus != corpus || l.Width < 1 || class.Class != name {
		return nil, fmt.Errorf("weaviate: collection %s is %w of this version: name the corpus otherwise, set another prefix, or delete it", name, ErrForeign)
	}
	if class.MultiTenancyConfig.Enabled != (s.cfg.Tenant != "") {
		return nil, fmt.Errorf("weaviate: collection %s has tenants: %t; the config names one: %t. It must be as when the corpus was made",
			name, class.MultiTenancyConfig.Enabled, s.cfg.Tenant != "")
	}
	c := &collection{name: name, width: l.Width, properties: map[string]string{}, blockMax: class.InvertedIndexConfig.UsingBlockMaxWAND, read: time.Now()}
	for _, p := range class.Properties {
		if len(p.DataType) == 1 {
			c.properties[p.Name] = p.DataType[0]
		}
	}
	if err := s.readTenant(ctx, c); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.collections[corpus] = c
	s.mu.Unlock()
	return c, nil
}

func (s *Store) forget(corpus string) {
	s.mu.Lock()
	delete(s.collections, corpus)
	s.mu.Unlock()
}

// ensure returns a corpus's collection, and creates it and what it lacks.
func (s *Store) ensure(ctx context.Context, corpus string, width int) (*collection, error) {
	c, err := s.lookup(ctx, corpus)
	if err != nil {
		return nil, err
	}
	if c == nil {
		if c, err = s.create(ctx, corpus, width); err != nil {
			return nil, err
		}
	}
	if !c.tenant {
		if err := s.createTenant(ctx, c); err != nil {
			return nil, err
		}
		if c, err = s.refresh(ctx, corpus); err != nil || c == nil {
			return nil, errors.Join(err, fmt.Errorf("weaviate: tenant %s of corpus %s: it was created and is not there", s.cfg.Tenant, corpus))
		}
	}
	return s.addProperties(ctx, corpus, c, s.missing(c))
}

// errDropped: somebody has dropped the collection that was being written to.
var errDropped = errors.New("dropped in the meantime")

// create makes a corpus's collection, or reads the one that somebody else has just made.
func (s *Store) create(ctx context.Context, corpus string, width int) (*collection, error) {
	name, err := CollectionName(s.cfg.Prefix, corpus)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	description, err := json.Marshal(label{Aerie: layout, Corpus: corpus, Width: width})
	if err != nil {
		return nil, err
	}
	class := &models.Class{
		Class: name, Description: string(description), Vectorizer: "none", VectorIndexType: "hnsw",
		VectorIndexConfig: map[string]any{"distance": "cosine"},
		InvertedIndexConfig: &models.InvertedIndexConfig{
			Bm25: &models.BM25Config{K1: 1.2, B: 0.75},
			// With the preset "en" a search for "to be or not to be" finds nothing.
			Stopwords: &models.StopwordConfig{Preset: "none"},
		},
	}
	for _, col := range columns {
		if col.with == "" || s.cfg.compat(col.with) || col.name == propWordsMark {
			class.Properties = append(class.Properties, col.property())
		}
	}
	if s.cfg.Replicas > 0 {
		class.ReplicationConfig = &models.ReplicationConfig{Factor: int64(s.cfg.Replicas)}
		if s.cfg.Replicas > 1 {
			// Otherwise a replica that missed a delete brings the node back.
			class.ReplicationConfig.DeletionStrategy = "TimeBasedResolution"
		}
	}
	if s.cfg.Tenant != "" {
		class.MultiTenancyConfig = &models.MultiTenancyConfig{Enabled: true, AutoTenantActivation: true}
	}
	createErr := s.call(ctx, "create "+name, func(ctx context.Context) error {
		return s.schema.ClassCreator().WithClass(class).Do(ctx)
	})
	c, err := s.refresh(ctx, corpus)
	switch {
	case err != nil:
		return nil, err
	case c == nil && createErr != nil:
		return nil, fmt.Errorf("weaviate: create collection %s: %w", name, createErr)
	case c == nil:
		return nil, fmt.Errorf("weaviate: collection %s: %w: it was created and is not there", name, ErrUnavailable)
	}
	return c, nil
}

// addProperties adds properties that a collection lacks; those that somebody else has just added are fine.
func (s *Store) addProperties(ctx context.Context, corpus string, c *collection, missing []*models.Property) (*collection, error) {
	if len(missing) == 0 {
		return c, nil
	}
	var errs []error
	for _, p := range missing {
		err := s.call(ctx, "add property "+p.Name, func(ctx context.Context) error {
			return s.schema.PropertyCreator().WithClassName(c.name).WithProperty(p).Do(ctx)
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("weaviate: collection %s: add property %s: %w", c.name, p.Name, err))
		}
	}
	newer, err := s.refresh(ctx, corpus)
	if err != nil {
		return nil, err
	}
	if newer == nil {
		return nil, fmt.Errorf("collection %s: %w", c.name, errDropped)
	}
	if len(errs) > 0 && slices.ContainsFunc(missing, func(p *models.Property) bool { return !newer.has(p.Name) }) {
		return nil, errors.Join(errs...)
	}
	return newer, nil
}

// metadataNames returns the property of each metadata key and kind that the nodes have, and creates those that are
// missing. Keys that can't be taken are returned with the reason.
func (s *Store) metadataNames(ctx context.Context, corpus string, c *collection, wanted map[string]map[kind]bool) (*collection, map[string]error, error) {
	refused := map[string]error{}
	var missing []*models.Property
	taken := map[string]bool{} // names in lower case
	known := 0
	for name := range c.properties {
		taken[strings.ToLower(name)] = true
		if _, _, ok := metadataKey(name); ok {
			known++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if err := s.checkKey(key, c); err != nil {
			refused[key] = err
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(wanted[key])) {
			if _, ok := c.metadataName(key, k); ok {
				continue
			}
			if known+len(missing) >= s.cfg.MaxMetadata {
				refused[key] = fmt.Errorf("%w: metadata %q would be property %d, and at most %d may be made (each is an index of the server's); known are %s",
					store.ErrInvalid, key, known+len(missing)+1, s.cfg.MaxMetadata, strings.Join(c.metadataKeys(), ", "))
				break
			}
			name := key
			if k.exact() || !isPlain(key) || taken[strings.ToLower(key)] {
				name = escapedName(key, k)
			}
			taken[strings.ToLower(name)] = true
			missing = append(missing, metadataColumn(name, k).property())
		}
	}
	c, err := s.addProperties(ctx, corpus, c, missing)
	return c, refused, err
}

// checkKey reports why a metadata key can't be stored.
func (s *Store) checkKey(key string, c *collection) error {
	if len(s.cfg.Metadata) > 0 && !slices.Contains(s.cfg.Metadata, key) {
		return fmt.Errorf("%w: metadata %q is unknown; known are %s", store.ErrInvalid, key, strings.Join(slices.Sorted(slices.Values(s.cfg.Metadata)), ", "))
	}
	if n := len(escapedName(key, kindBooleans)); n > maxPropertyName {
		return fmt.Errorf("%w: metadata %.40q… makes a property name of %d characters, Weaviate takes %d; known are %s",
			store.ErrInvalid, key, n, maxPropertyName, strings.Join(c.metadataKeys(), ", "))
	}
	return nil
}

func metadataColumn(name string, k kind) column {
	c := column{name: name, dataType: dataTypes[k], filter: !k.exact()}
	if c.dataType == "text" || c.dataType == "text[]" {
		c.tokenization = "field"
	}
	return c
}

// metadataName returns the property that holds the values of a kind of a metadata key.
func (c *collection) metadataName(key string, k kind) (string, bool) {
	if !k.exact() && isPlain(key) && c.properties[key] == dataTypes[k] {
		return key, true
	}
	name := escapedName(key, k)
	return name, c.properties[name] == dataTypes[k]
}

// metadataKeys returns the metadata keys that the collection has a property for, sorted.
func (c *collection) metadataKeys() []string {
	seen := map[string]bool{}
	for name := range c.properties {
		if key, _, ok := metadataKey(name); ok {
			seen[key] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// ensureOnDemand returns the collection with properties that only some corpora need.
func (s *Store) ensureOnDemand(ctx context.Context, corpus string, c *collection, names ...string) (*collection, error) {
	var missing []*models.Property
	for _, col := range columns {
		if slices.Contains(names, col.name) && !c.has(col.name) {
			missing = append(missing, col.property())
		}
	}
	return s.addProperties(ctx, corpus, c, missing)
}
