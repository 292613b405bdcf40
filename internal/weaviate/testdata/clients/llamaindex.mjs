import weaviate from "weaviate-client";
import { WeaviateVectorStore } from "@llamaindex/weaviate";
import { BaseEmbedding } from "@llamaindex/core/embeddings";

const [host, port, grpcPort, collection, vector] = process.argv.slice(2);

// In place of the model that embedded the corpus.
class Fixed extends BaseEmbedding {
  async getTextEmbedding() { return JSON.parse(vector); }
}

const embeddingModel = new Fixed();
const weaviateClient = await weaviate.connectToLocal({ host, port: Number(port), grpcPort: Number(grpcPort) });
const store = new WeaviateVectorStore({ weaviateClient, indexName: collection, embeddingModel });

// Leaves and summaries of the current tree: what was born up to its generation and has not died.
const generation = 1;
const { nodes, ids } = await store.query({
  queryStr: "a question",
  queryEmbedding: await embeddingModel.getTextEmbedding("a question"),
  similarityTopK: 3,
  mode: "default",
  filters: {
    filters: [
      { key: "born", operator: "<=", value: generation },
      { key: "died", operator: ">", value: generation },
    ],
  },
});
console.log(JSON.stringify(nodes.map((n, i) => ({ id: ids[i], node: n.id_, text: n.text, metadata: n.metadata }))));
await weaviateClient.close();
