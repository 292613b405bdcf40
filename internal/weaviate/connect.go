package weaviate

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weaviate/weaviate-go-client/v4/weaviate/connection"
	"github.com/weaviate/weaviate-go-client/v4/weaviate/data"
	"github.com/weaviate/weaviate-go-client/v4/weaviate/db"
	"github.com/weaviate/weaviate-go-client/v4/weaviate/schema"
	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/aerie-rag/aerie/internal/store"
)

// maxMessage is the largest gRPC message either way. The library's own limit for what is received is 4 MiB.
const maxMessage = 100 << 20

// The bytes that may be under way on a stream of the gRPC connection, and those that are read or written at once.
const (
	window = 16 << 20
	buffer = 256 << 10
)

// oldest is the oldest server that has all that is used here: range indexes came with 1.26, the stubs are of 1.27.
var oldest = [2]int{1, 27}

// Store is the node store on Weaviate.
type Store struct {
	cfg     Config
	version string
	rest    *connection.Connection
	schema  *schema.API
	objects *data.API
	http    *http.Transport
	conn    *grpc.ClientConn
	api     pb.WeaviateClient

	mu          sync.Mutex
	collections map[string]*collection // by corpus, as last read
}

var _ store.Store = (*Store)(nil)

// Connect reaches the server on both of its sides and returns the store. It waits three seconds at most, or Patience if that
// is less.
func Connect(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	place, err := cfg.place()
	if err != nil {
		return nil, err
	}
	certificates, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	keys := &keyring{cfg: cfg}
	if _, err := keys.authorization(ctx); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, collections: map[string]*collection{}}
	s.openREST(place, certificates, keys)
	if err := s.openGRPC(place, certificates, keys); err != nil {
		return nil, err
	}
	// Who waits for a server to come up does so with a word to somebody; here it is either there or not.
	s.cfg.Patience = min(cfg.Patience, 3*time.Second)
	if err := s.Check(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.cfg.Patience = cfg.Patience
	return s, nil
}

func (s *Store) openREST(p place, certificates *tls.Config, keys *keyring) {
	s.http = http.DefaultTransport.(*http.Transport).Clone()
	s.http.TLSClientConfig = certificates
	s.http.MaxIdleConnsPerHost = patchers
	client := &http.Client{Transport: &signer{next: s.http, keys: keys, headers: s.cfg.Headers}, Timeout: s.cfg.Timeout}
	scheme := "http"
	if p.tls {
		scheme = "https"
	}
	s.rest = connection.NewConnection(scheme, p.host, client, s.cfg.Timeout, nil)
	// The client sets a finalizer that waits for a receiver which is never there, and no other finalizer of the process
	// would run after it.
	runtime.SetFinalizer(s.rest, nil)
	s.schema = schema.New(s.rest)
}

func (s *Store) openGRPC(p place, certificates *tls.Config, keys *keyring) error {
	transport := insecure.NewCredentials()
	if p.grpcTLS {
		transport = credentials.NewTLS(certificates)
	}
	conn, err := grpc.NewClient("dns:///"+p.grpc,
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(&rpcKeys{keys: keys, headers: s.cfg.Headers}),
		// Pages and batches are megabytes: with the library's windows of 64 KB, both sides would wait for each other.
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(4*window),
		// The library's own pauses between connections grow to two minutes: a server that is back would be left waiting.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}, MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithReadBufferSize(buffer), grpc.WithWriteBufferSize(buffer),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("weaviate: gRPC address %s: %w", p.grpc, err)
	}
	s.conn, s.api = conn, pb.NewWeaviateClient(conn)
	return nil
}

// Close ends the connections.
func (s *Store) Close() error {
	s.http.CloseIdleConnections()
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

// Version returns the server's version, such as "1.35.2".
func (s *Store) Version() string { return s.version }

// Check reports whether both sides of the server answer, and whether it is one that the store can work with.
func (s *Store) Check(ctx context.Context) error {
	var meta struct {
		Version string `json:"version"`
	}
	if err := s.getJSON(ctx, "/meta", &meta); err != nil {
		return fmt.Errorf("weaviate: %s: %w", s.cfg.URL, err)
	}
	if err := checkVersion(meta.Version); err != nil {
		return err
	}
	if s.objects == nil {
		s.version = meta.Version
		s.objects = data.New(s.rest, db.NewDBVersionSupport(db.NewVersionProvider(func() string { return meta.Version })))
	}
	place, err := s.cfg.place()
	if err != nil {
		return err
	}
	// A collection that can't exist: any answer of the server's shows that its gRPC side is there and takes our key.
	err = s.call(ctx, "gRPC", func(ctx context.Context) error {
		_, err := s.api.Search(ctx, &pb.SearchRequest{Collection: s.cfg.Prefix, Limit: 1, Uses_127Api: true})
		if isMissing(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("weaviate: gRPC at %s: %w", place.grpc, err)
	}
	return nil
}

// checkVersion reports whether a server is too old.
func checkVersion(version string) error {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	if errA != nil || errB != nil {
		return fmt.Errorf("weaviate: the server says that its version is %q, which is none of Weaviate's", version)
	}
	if a < oldest[0] || a == oldest[0] && b < oldest[1] {
		return fmt.Errorf("weaviate: the server is version %s; %d.%d or later is needed", version, oldest[0], oldest[1])
	}
	return nil
}

// getJSON reads a path of the REST side into a value.
func (s *Store) getJSON(ctx context.Context, path string, into any) error {
	return s.call(ctx, path, func(ctx context.Context) error {
		reply, err := s.rest.RunREST(ctx, path, http.MethodGet, nil)
		if err != nil {
			return err
		}
		if reply.StatusCode != http.StatusOK {
			return &statusError{code: reply.StatusCode, text: string(reply.Body)}
		}
		if into == nil {
			return nil
		}
		if err := json.Unmarshal(reply.Body, into); err != nil {
			return fmt.Errorf("the answer to GET /v1%s is no JSON; is this Weaviate? %w", path, err)
		}
		return nil
	})
}

// keyring tells what authorizes a request.
type keyring struct {
	cfg Config

	mu   sync.Mutex
	key  string // of the file
	read time.Time
}

// keyFileAge is how long a key that was read from a file is used.
const keyFileAge = time.Minute

// authorization returns the value of the header, empty for none.
func (k *keyring) authorization(ctx context.Context) (string, error) {
	switch {
	case k.cfg.Token != nil:
		token, err := k.cfg.Token(ctx)
		if err != nil {
			return "", fmt.Errorf("weaviate: bearer token: %w", err)
		}
		return "Bearer " + token, nil
	case k.cfg.APIKeyFile != "":
		key, err := k.fromFile()
		if err != nil {
			return "", fmt.Errorf("weaviate: API key: %w", err)
		}
		return "Bearer " + key, nil
	case k.cfg.APIKey != "":
		return "Bearer " + k.cfg.APIKey, nil
	}
	return "", nil
}

func (k *keyring) fromFile() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != "" && time.Since(k.read) < keyFileAge {
		return k.key, nil
	}
	text, err := os.ReadFile(k.cfg.APIKeyFile)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("the file %s is empty", k.cfg.APIKeyFile)
	}
	k.key, k.read = key, time.Now()
	return key, nil
}

// signer adds authorization and headers to REST requests.
type signer struct {
	next    http.RoundTripper
	keys    *keyring
	headers map[string]string
}

func (s *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	authorization, err := s.keys.authorization(r.Context())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	for name, value := range s.headers {
		r.Header.Set(name, value)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return s.next.RoundTrip(r)
}

// rpcKeys adds authorization and headers to gRPC calls.
type rpcKeys struct {
	keys    *keyring
	headers map[string]string
}

func (r *rpcKeys) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	authorization, err := r.keys.authorization(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, value := range r.headers {
		out[strings.ToLower(name)] = value
	}
	if authorization != "" {
		out["authorization"] = authorization
	}
	return out, nil
}

// RequireTransportSecurity reports false: inside a cluster, Weaviate is commonly reached without TLS, and the URL says
// which it is.
func (r *rpcKeys) RequireTransportSecurity() bool { return false }
