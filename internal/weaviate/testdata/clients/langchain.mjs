import weaviate, { Filters } from "weaviate-client";
import { WeaviateStore } from "@langchain/weaviate";
import { Embeddings } from "@langchain/core/embeddings";

const [host, port, grpcPort, collection, vector] = process.argv.slice(2);

// In place of the model that embedded the corpus.
class Fixed extends Embeddings {
  async embedQuery() { return JSON.parse(vector); }
  async embedDocuments(texts) { return texts.map(() => JSON.parse(vector)); }
}

const client = await weaviate.connectToLocal({ host, port: Number(port), grpcPort: Number(grpcPort) });
const store = await WeaviateStore.fromExistingIndex(new Fixed({}), { client, indexName: collection, textKey: "text" });

// Leaves and summaries of the current tree: what was born up to its generation and has not died.
const generation = 1;
const c = client.collections.get(collection);
const current = Filters.and(
  c.filter.byProperty("born").lessOrEqual(generation),
  c.filter.byProperty("died").greaterThan(generation),
);
const found = await store.similaritySearchWithScore("a question", 3, current);
console.log(JSON.stringify(found.map(([d, distance]) => ({ id: d.id, text: d.pageContent, metadata: d.metadata, distance }))));
await client.close();
