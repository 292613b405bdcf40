// Package stack runs the three servers of a fleet on this machine, for development and tests: nats-server built from its
// module, redis-server as installed, and Weaviate built from its module (once, into .cache at the module's root).
//
// All listen on free ports of the loopback interface and keep their files in one folder. What was started is written down
// in the folder, so that another process can stop exactly these servers and none else.
package stack
