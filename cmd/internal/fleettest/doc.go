// Package fleettest holds the tests of a whole fleet: the three programs as processes, on a real nats-server, redis-server and
// Weaviate (`make test-stack`). A test has a NATS and a Redis of its own, since workers take the tasks of every corpus, and shares
// Weaviate with the others, where its corpora have names of their own.
package fleettest
