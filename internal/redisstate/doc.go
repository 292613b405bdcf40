// Package redisstate keeps what a fleet of coordinators and workers shares in Redis: the barriers of levels, build
// state and the lease on it, the records of corpora, and the limits and budgets of calls to models. It implements
// the ports of package levels, and those of package llm for a fleet.
//
// Redis is an index here and never the only home of a fact. What it loses is rebuilt by the coordinator from plans,
// nodes and the queue; until then marks are refused with levels.ErrNotOpen and come again.
//
// # Scripts
//
// Whatever reads and then writes is one Lua script, in a file of its own below lua. A script is called by its
// digest, and by its text when the server doesn't know it (after a restart, a failover or SCRIPT FLUSH). Scripts are
// never pipelined: in a pipeline the second step doesn't happen.
//
// # Repeats
//
// A reply can get lost after the effect, so every call here may be made twice: bits are set rather than counters
// raised, leases and states carry an epoch, reservations have ids, and calls that would do harm a second time leave a
// key behind for ten minutes by which the repeat is known. The client's own retries are off. [State] repeats a
// call while Redis is away, and gives up with [ErrUnavailable] after [Config.Patience].
//
// # Keys
//
//	aerie:{corpus:build}:levels            set: the levels that have a barrier
//	aerie:{corpus:build}:L2:meta           hash: digest, total, usage
//	aerie:{corpus:build}:L2:done, :dead    bitmaps by position in the plan
//	aerie:{corpus}:builds                  set: the builds that have barriers
//	aerie:{corpus}:lease                   hash: holder, epoch, until
//	aerie:{corpus}:build                   hash: state of the newest build, by which epoch
//	aerie:{corpus}:history                 hash: what is kept of each build
//	aerie:{corpus}:progress, :wishes       for people, and from them
//	aerie:{/corpora}:records               hash: the records of corpora
//	aerie:{/fleet}:members                 hash: what coordinators and workers tell of themselves
//	aerie:{/limit:endpoint}:…              buckets and calls under way, see [Limiter]
//	aerie:{/budget:build}:…                spent and reserved, see [Budget]
//
// Names are escaped: they hold no colon, brace or slash. A script touches the keys of one pair of braces only, so that it
// runs on a Redis Cluster. Barriers live for [Config.BarrierTTL] after the last mark; leases, states and
// records live on.
//
// # Time
//
// Leases, limits and reservations follow the clock of the Redis server, the one clock that the fleet has in common.
// The end of a lease that a holder gets told is by its own clock, counted from before the call, so that it never thinks
// that it holds the lease for longer than it does.
//
// # Access
//
// A user with access control needs:
//
//	~aerie:* +@read +@write +@scripting +@connection +info +time +cluster|slots +cluster|shards
package redisstate
