// Package natsqueue keeps the queue, the plans and the journal on NATS JetStream: on a server in this process
// with its files under the home directory ([Embedded]), or on a remote one ([Connect]). Both give a [Conn], run the same
// code and pass the same suites.
//
// # Streams
//
//	AERIE_TASKS         aerie.task.<corpus>.<build>.<level>.<id>   work queue: one message for each unfinished task
//	AERIE_DEAD          aerie.dead.<corpus>.<build>.<level>.<id>   the last reason for each buried task
//	OBJ_AERIE_PLANS     object store: compressed plans and tree records
//	KV_AERIE_JOURNAL    key-value bucket: paid answers; the first one for a key wins
//	KV_AERIE_ATTEMPTS   key-value bucket: attempts by build and task, counted by compare and set
//
// The task stream holds at most one message for each subject and refuses a second (error 10077), also after a
// restart: that is what makes publishing repeatable. Message ids would not: the server forgets those of settled messages.
// One durable pull consumer, workers, hands tasks out. It acknowledges explicitly, delivers without limit
// (an exhausted message would stay in the stream for ever, seen by nobody) and has no BackOff, which would replace
// AckWait and break delayed retries.
//
// # Leases
//
// A delivery's lease ends AckWait after the last contact that the server has confirmed. The client counts for
// itself, from the moment before it sent, and gives up a tenth of it early: [queue.ErrLost] comes from the clock, or when the
// message has left the stream. A missing connection alone is [queue.ErrUnavailable] until then. The server asks
// only whether a message is pending, never who holds it, so nothing is sent for a lease that has run out, except
// the final ack.
//
// Leases outlive a server that is killed, but for those of its last 100 ms: a task among these is delivered again
// at once, while its holder is at work. Like every second delivery it is harmless.
//
// An embedded queue has one process, which holds a file lock. When it opens, no lease can be left, so the
// consumer is made anew and what a killed process had in hand is delivered at once.
//
// A receive asks for one message and no more. When it is cancelled, it first withdraws its interest, then waits
// for what was on the way and gives it back. On a cluster a message can still be lost between two servers; it comes
// back after AckWait.
//
// # Durability
//
// What a call has confirmed outlives the process, however it ends: the server has written it to a file. Outliving
// a power cut takes a flush to the disk, which costs more than all the rest. An embedded queue waits for it where an
// answer that was paid for or a plan is at stake, many at a time; everything else is flushed every few seconds, and
// what is lost of it is made again from the plans and the nodes. A server of its own should run with sync_interval always
// and three replicas.
//
// # Who creates
//
// [Conn.Migrate] makes what is missing and reports what differs; it changes nothing that exists. Coordinators
// and operators call it; workers call [Conn.Check] and need no rights to create or delete. An embedded queue is
// migrated when it is opened, and follows its configuration.
package natsqueue
