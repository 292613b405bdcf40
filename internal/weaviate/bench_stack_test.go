//go:build stack

package weaviate_test

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/weaviate"
)

// The benchmarks set the store beside the plainest program that does the same, in turns and in the same run, so that what
// else the machine does weighs on both. "x" is how many times as fast the store is.

const benchNodes = 4000

func rawClient(b *testing.B) pb.WeaviateClient {
	b.Helper()
	conn, err := grpc.NewClient(server.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(100<<20), grpc.MaxCallSendMsgSize(100<<20)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return pb.NewWeaviateClient(conn)
}

// passages returns leaves as a corpus has them: about 100 words each.
func passages(n, width int) []tree.Node {
	random := rand.New(rand.NewPCG(9, 9))
	nodes := many(n, width)
	for i := range nodes {
		var b strings.Builder
		for range 100 {
			fmt.Fprintf(&b, "word%d ", int(math.Abs(random.NormFloat64())*400))
		}
		nodes[i].Text = b.String()
		nodes[i].Metadata = map[string]any{"source": nodes[i].DocumentID + ".txt", "page": float64(i % 50)}
	}
	return nodes
}

func rawImport(b *testing.B, client pb.WeaviateClient, class string, nodes []tree.Node) {
	b.Helper()
	for chunk := range slices.Chunk(nodes, 1000) {
		r := &pb.BatchObjectsRequest{}
		for _, n := range chunk {
			vector := make([]byte, 4*len(n.Vector))
			for i, x := range n.Vector {
				binary.LittleEndian.PutUint32(vector[4*i:], math.Float32bits(x))
			}
			properties, err := structpb.NewStruct(map[string]any{
				"text": n.Text, "document_id": n.DocumentID, "chunk_index": n.ChunkIndex, "raptor_level": n.Level, "tokens": n.Tokens,
				"born": n.Born, "died": n.Died, "n_leaves": n.NLeaves, "source": n.Metadata["source"], "page": n.Metadata["page"],
			})
			if err != nil {
				b.Fatal(err)
			}
			r.Objects = append(r.Objects, &pb.BatchObject{
				Uuid: n.ID.String(), Collection: class, VectorBytes: vector, Properties: &pb.BatchObject_Properties{NonRefProperties: properties},
			})
		}
		reply, err := client.BatchObjects(b.Context(), r)
		if err != nil || len(reply.GetErrors()) > 0 {
			b.Fatal(err, reply.GetErrors())
		}
	}
}

// inTurns times two functions in turns, and returns the medians.
func inTurns(rounds int, ours, theirs func(round int)) (a, b time.Duration) {
	var as, bs []time.Duration
	timed := func(fn func(int), round int) time.Duration { start := time.Now(); fn(round); return time.Since(start) }
	for i := range rounds {
		if i%2 == 0 {
			as, bs = append(as, timed(ours, i)), append(bs, timed(theirs, i))
		} else {
			bs, as = append(bs, timed(theirs, i)), append(as, timed(ours, i))
		}
	}
	slices.SortFunc(as, cmp.Compare[time.Duration])
	slices.SortFunc(bs, cmp.Compare[time.Duration])
	return as[len(as)/2], bs[len(bs)/2]
}

func BenchmarkImport(b *testing.B) {
	s, client, nodes := connect(b, weaviate.Config{}), rawClient(b), passages(benchNodes, 384)
	for run := 0; b.Loop(); run++ {
		corpus := func(side string, round int) string { return fmt.Sprintf("import%s%dx%d", side, run, round) }
		const rounds = 5
		for round := range rounds { // the schema is there for both
			for _, side := range []string{"a", "b"} {
				if err := s.Put(b.Context(), corpus(side, round), nodes[:1]); err != nil {
					b.Fatal(err)
				}
			}
		}
		ours, raw := inTurns(rounds, func(round int) {
			if err := s.Put(b.Context(), corpus("a", round), nodes); err != nil {
				b.Fatal(err)
			}
		}, func(round int) { rawImport(b, client, "Aerie_"+corpus("b", round), nodes) })
		b.ReportMetric(benchNodes/ours.Seconds(), "nodes/s")
		b.ReportMetric(benchNodes/raw.Seconds(), "raw/s")
		b.ReportMetric(raw.Seconds()/ours.Seconds(), "x")
		for round := range rounds {
			for _, side := range []string{"a", "b"} {
				if err := s.Drop(b.Context(), corpus(side, round)); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

// restCursor reads a collection as the documentation of Weaviate shows it.
func restCursor(b *testing.B, class string) int {
	b.Helper()
	after, total := "", 0
	for {
		reply, err := http.Get(fmt.Sprintf("%s/v1/objects?class=%s&limit=1000&include=vector&after=%s", server.URL, class, after))
		if err != nil {
			b.Fatal(err)
		}
		var page struct {
			Objects []struct {
				ID         string
				Vector     []float32
				Properties map[string]any
			}
		}
		err = json.NewDecoder(reply.Body).Decode(&page)
		_ = reply.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
		if len(page.Objects) == 0 {
			return total
		}
		total += len(page.Objects)
		after = page.Objects[len(page.Objects)-1].ID
	}
}

// BenchmarkReadBack reads a corpus with its vectors: with everything else, and as clustering does, without texts. The REST cursor
// has all properties or none of the vectors.
func BenchmarkReadBack(b *testing.B) {
	s := connect(b, weaviate.Config{})
	for _, width := range []int{384, 1024} {
		corpus, nodes := fmt.Sprint("readback", width), passages(5*benchNodes, width)
		if err := s.Put(b.Context(), corpus, nodes); err != nil {
			b.Fatal(err)
		}
		for name, with := range map[string]store.Fields{"all": allFields, "vectors": {Vector: true}} {
			b.Run(fmt.Sprintf("%d/%s", width, name), func(b *testing.B) {
				for b.Loop() {
					ours, raw := inTurns(5, func(int) {
						got := 0
						err := s.Each(b.Context(), corpus, store.AnyLevel(), with, func(n *tree.Node) error { got++; return nil })
						if err != nil || got != len(nodes) {
							b.Fatal(got, err)
						}
					}, func(int) {
						if got := restCursor(b, "Aerie_"+corpus); got != len(nodes) {
							b.Fatal(got)
						}
					})
					b.ReportMetric(float64(len(nodes))/ours.Seconds(), "nodes/s")
					b.ReportMetric(float64(len(nodes))/raw.Seconds(), "raw/s")
					b.ReportMetric(raw.Seconds()/ours.Seconds(), "x")
				}
			})
		}
	}
}

func rawQuery(b *testing.B, client pb.WeaviateClient, query []float32, class string) {
	b.Helper()
	vector := make([]byte, 4*len(query))
	for i, x := range query {
		binary.LittleEndian.PutUint32(vector[4*i:], math.Float32bits(x))
	}
	reply, err := client.Search(b.Context(), &pb.SearchRequest{
		Collection: class, Limit: 10, NearVector: &pb.NearVector{VectorBytes: vector}, Uses_127Api: true,
		Metadata:   &pb.MetadataRequest{Uuid: true, Distance: true},
		Properties: &pb.PropertiesRequest{NonRefProperties: []string{"text", "document_id"}},
	})
	if err != nil || len(reply.GetResults()) != 10 {
		b.Fatal(err)
	}
}

func BenchmarkQuery(b *testing.B) {
	s, client, nodes := connect(b, weaviate.Config{}), rawClient(b), passages(2*benchNodes, 384)
	if err := s.Put(b.Context(), "query", nodes); err != nil {
		b.Fatal(err)
	}
	queries := many(400, 384)
	for b.Loop() {
		ours, raw := inTurns(len(queries), func(i int) {
			hits, err := s.Search(b.Context(), "query", store.Query{
				Vector: queries[i].Vector, Limit: 10, Filter: store.AnyLevel().VisibleAt(0), With: store.Fields{Text: true},
			})
			if err != nil || len(hits) != 10 {
				b.Fatal(len(hits), err)
			}
		}, func(i int) {
			rawQuery(b, client, queries[i].Vector, "Aerie_query")
		})
		b.ReportMetric(float64(ours.Microseconds()), "µs/p50")
		b.ReportMetric(float64(raw.Microseconds()), "raw-µs/p50")
		b.ReportMetric(ours.Seconds()/raw.Seconds(), "of-raw")
	}
}
