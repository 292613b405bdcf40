package telemetry

import (
	"strings"

	"github.com/aerie-rag/aerie/internal/levels"
)

// The names of all metrics. The table below says what each is.
const (
	CorpusLeaves          = "aerie_corpus_leaves"
	CorpusSummaries       = "aerie_corpus_summaries"
	CorpusGeneration      = "aerie_corpus_generation"
	CorpusGrowth          = "aerie_corpus_growth_ratio"
	CorpusGrowthThreshold = "aerie_corpus_growth_threshold_ratio"
	CorpusUnseen          = "aerie_corpus_unseen_ratio"
	CorpusReadTimestamp   = "aerie_corpus_read_timestamp_seconds"

	BuildRunning           = "aerie_build_running"
	BuildProgressTimestamp = "aerie_build_progress_timestamp_seconds"
	BuildStartTimestamp    = "aerie_build_start_timestamp_seconds"
	BuildCalls             = "aerie_build_calls"
	BuildReused            = "aerie_build_reused_calls"
	BuildInputTokens       = "aerie_build_input_tokens"
	BuildOutputTokens      = "aerie_build_output_tokens"
	BuildCost              = "aerie_build_cost_amount"
	BuildBudget            = "aerie_build_budget_ratio"
	Builds                 = "aerie_builds_total"
	BuildSeconds           = "aerie_build_seconds"

	LevelExpected = "aerie_level_expected_tasks"
	LevelDone     = "aerie_level_done_tasks"
	LevelQueued   = "aerie_level_queued_tasks"
	LevelRunning  = "aerie_level_running_tasks"
	LevelBuried   = "aerie_level_buried_tasks"
	LevelOldest   = "aerie_level_oldest_task_seconds"
	LevelLargest  = "aerie_level_largest_cluster_tokens"
	LevelMade     = "aerie_level_made_summaries"
	LevelCarried  = "aerie_level_carried_summaries"
	LevelKept     = "aerie_level_kept_summaries"

	ClusteringSeconds = "aerie_clustering_seconds"
	ClusterTokens     = "aerie_cluster_tokens"

	Leader           = "aerie_coordinator_leader"
	LeaseLosses      = "aerie_coordinator_lease_losses_total"
	ReconcileSeconds = "aerie_reconcile_seconds"
	PublishedTasks   = "aerie_published_tasks_total"

	Tasks           = "aerie_tasks_total"
	TaskSeconds     = "aerie_task_seconds"
	BuriedTasks     = "aerie_buried_tasks_total"
	TaskLeaseLosses = "aerie_task_lease_losses_total"
	Slots           = "aerie_worker_slots"
	BusySlots       = "aerie_worker_busy_slots"

	Calls            = "aerie_calls_total"
	CallSeconds      = "aerie_call_seconds"
	InputTokens      = "aerie_input_tokens_total"
	OutputTokens     = "aerie_output_tokens_total"
	ReusedAnswers    = "aerie_reused_answers_total"
	RefusedAnswers   = "aerie_refused_answers_total"
	ThrottledCalls   = "aerie_throttled_calls_total"
	LimitWait        = "aerie_limit_wait_seconds_total"
	CallsUnderWay    = "aerie_calls_under_way"
	CallsWaiting     = "aerie_calls_waiting"
	ConcurrencyLimit = "aerie_concurrency_limit_calls"

	StoreCalls       = "aerie_store_calls_total"
	StoreCallSeconds = "aerie_store_call_seconds"
	QueueCalls       = "aerie_queue_calls_total"
	QueueCallSeconds = "aerie_queue_call_seconds"
	StateCalls       = "aerie_state_calls_total"
	StateCallSeconds = "aerie_state_call_seconds"

	Queries      = "aerie_queries_total"
	QuerySeconds = "aerie_query_seconds"
	QueryHits    = "aerie_query_hits"

	Requests = "aerie_http_requests_total"

	Ready = "aerie_ready"
)

// Values of LabelOutcome.
const (
	OutcomeOK    = "ok"
	OutcomeError = "error"

	// QueryRefused: the query can't be answered as it was asked, or there is nothing to search.
	QueryRefused = "refused"

	outcomeCancelled = "cancelled"

	TaskDone     = "done"     // the node was made
	TaskReused   = "reused"   // the node existed
	TaskFailed   = "failed"   // the attempt counts, the task is tried again
	TaskReturned = "returned" // given back, and the attempt doesn't count: throttled, shutting down, a dependency away
	TaskBuried   = "buried"
)

const (
	coordinatorOnly = "coordinator"
	workerOnly      = "worker"
	both            = "coordinator, worker"
)

var (
	byCorpus        = []string{LabelCorpus}
	byLevel         = []string{LabelCorpus, LabelLevel}
	byModel         = []string{LabelModel}
	byOutcome       = []string{LabelOutcome}
	byCorpusOutcome = []string{LabelCorpus, LabelOutcome}
	byStop          = []string{LabelCorpus, LabelOutcome, LabelCause}
	byLevelOutcome  = []string{LabelCorpus, LabelLevel, LabelOutcome}
	byModelOutcome  = []string{LabelModel, LabelOutcome}

	buildOutcomes = []string{"built", "degraded", "failed", "cancelled", "paused"}
	taskOutcomes  = []string{TaskDone, TaskReused, TaskFailed, TaskReturned, TaskBuried}
	callOutcomes  = []string{
		OutcomeOK, "throttled", "quota", "auth", "too_long", "invalid", "transient", "bad_answer", "unreachable", outcomeCancelled, OutcomeError,
	}
	refusals      = []string{"empty", "only_reasoning", "cut_off", "refusal", "failed", "planning", "asks_back", "loops", "same_answer", "bad_vectors"}
	plainOutcomes = []string{OutcomeOK, OutcomeError}
	queryOutcomes = []string{OutcomeOK, QueryRefused, OutcomeError}
)

// Metrics is the table of every metric that aerie's programs export beside those of the Go runtime and the process
// (go_*, process_*, promhttp_*). Everything is registered from it, and docs/metrics.md is held against it.
var Metrics = []Metric{
	// What stands in the stores. Read every few seconds, by each replica of the coordinator: take max by (corpus).
	{CorpusLeaves, Gauge, "leaves", byCorpus, coordinatorOnly, "Leaves that readers see.", nil, nil},
	{CorpusSummaries, Gauge, "summaries", byCorpus, coordinatorOnly, "Summaries that readers see.", nil, nil},
	{CorpusGeneration, Gauge, "1", byCorpus, coordinatorOnly, "Generation that readers see; 0 before the first build.", nil, nil},
	{CorpusGrowth, Gauge, "ratio", byCorpus, coordinatorOnly, "Leaves changed since the baseline, as a share of the leaves at the baseline; absent before the first build.", nil, nil},
	{CorpusGrowthThreshold, Gauge, "ratio", byCorpus, coordinatorOnly, "Growth at which a build is due.", nil, nil},
	{CorpusUnseen, Gauge, "ratio", byCorpus, coordinatorOnly, "Share of leaf tokens that the summaries of a level haven't seen, of the level that has seen least; 0 after a build in full.", nil, nil},
	{CorpusReadTimestamp, Gauge, "seconds", byCorpus, coordinatorOnly, "Unix time at which the metrics of the corpus, its build and its levels were last read.", nil, nil},

	{BuildRunning, Gauge, "1", byCorpus, coordinatorOnly, "1 while a build is under way, else 0.", nil, nil},
	{BuildProgressTimestamp, Gauge, "seconds", byCorpus, coordinatorOnly, "Unix time at which the newest build last came further: a task was settled, or a level or the build changed its phase.", nil, nil},
	{BuildStartTimestamp, Gauge, "seconds", byCorpus, coordinatorOnly, "Unix time at which the newest build started.", nil, nil},
	{BuildCalls, Gauge, "calls", byCorpus, coordinatorOnly, "Calls that the newest build has paid for.", nil, nil},
	{BuildReused, Gauge, "calls", byCorpus, coordinatorOnly, "Calls that existing nodes and the journal have saved the newest build.", nil, nil},
	{BuildInputTokens, Gauge, "tokens", byCorpus, coordinatorOnly, "Input tokens that the newest build has spent.", nil, nil},
	{BuildOutputTokens, Gauge, "tokens", byCorpus, coordinatorOnly, "Output tokens that the newest build has spent.", nil, nil},
	{BuildCost, Gauge, "amount", byCorpus, coordinatorOnly, "What the newest build has cost, in the currency of build.prices; absent without a price.", nil, nil},
	{BuildBudget, Gauge, "ratio", byCorpus, coordinatorOnly, "Share of its budget that the newest build has spent, of tokens or of cost, whichever is nearer to its end; absent without a budget.", nil, nil},
	{Builds, Counter, "builds", byStop, coordinatorOnly, "Builds that came to rest under this coordinator, and why: " + stops() + ".", buildOutcomes, nil},
	{BuildSeconds, Histogram, "seconds", byCorpusOutcome, coordinatorOnly, "Time from a build's start to its rest.", buildOutcomes, long},

	{LevelExpected, Gauge, "tasks", byLevel, coordinatorOnly, "Tasks that the level's plan asks for: done + queued + running + buried.", nil, nil},
	{LevelDone, Gauge, "tasks", byLevel, coordinatorOnly, "Tasks of the level whose node exists.", nil, nil},
	{LevelQueued, Gauge, "tasks", byLevel, coordinatorOnly, "Tasks of the level that wait.", nil, nil},
	{LevelRunning, Gauge, "tasks", byLevel, coordinatorOnly, "Tasks of the level in workers' hands, as far as they have reported.", nil, nil},
	{LevelBuried, Gauge, "tasks", byLevel, coordinatorOnly, "Tasks of the level that are buried.", nil, nil},
	{LevelOldest, Gauge, "seconds", byLevel, coordinatorOnly, "Age of the oldest unfinished task of the level; 0 when there is none.", nil, nil},
	{LevelLargest, Gauge, "tokens", byLevel, coordinatorOnly, "Tokens of the level's largest cluster.", nil, nil},
	{LevelMade, Gauge, "summaries", byLevel, coordinatorOnly, "Summaries of the level that the newest build makes, from the journal too.", nil, nil},
	{LevelCarried, Gauge, "summaries", byLevel, coordinatorOnly, "Summaries of the level that have a text of the tree before, over other children.", nil, nil},
	{LevelKept, Gauge, "summaries", byLevel, coordinatorOnly, "Summaries of the level that are those of the tree before; 0 in a build in full.", nil, nil},

	// What the coordinator does.
	{ClusteringSeconds, Histogram, "seconds", byLevel, coordinatorOnly, "Time that clustering took for the level.", nil, slow},
	{ClusterTokens, Histogram, "tokens", byLevel, coordinatorOnly, "Tokens of each cluster that was planned.", nil, tokens},
	{Leader, Gauge, "1", byCorpus, coordinatorOnly, "1 while this process holds the corpus's lease, else 0.", nil, nil},
	{LeaseLosses, Counter, "leases", byCorpus, coordinatorOnly, "Leases that another process took while this one was building.", nil, nil},
	{ReconcileSeconds, Histogram, "seconds", byLevel, coordinatorOnly, "Time to compare a level's plan with what is done, queued and dead, and to queue what is missing.", nil, slow},
	{PublishedTasks, Counter, "tasks", byLevel, coordinatorOnly, "Tasks that were queued, those that reconciling queued again included.", nil, nil},

	// What workers do.
	{Tasks, Counter, "tasks", byLevelOutcome, workerOnly, "Deliveries of tasks, by how they ended: done, reused (the node existed), failed (tried again), returned (uncounted) or buried.", taskOutcomes, nil},
	{TaskSeconds, Histogram, "seconds", byLevelOutcome, workerOnly, "Time from taking a task to settling its delivery.", taskOutcomes, slow},
	{BuriedTasks, Counter, "tasks", byLevelOutcome, workerOnly, "Tasks that were buried; outcome is the cause.", nil, nil},
	{TaskLeaseLosses, Counter, "leases", byLevel, workerOnly, "Leases on tasks that were lost while the work went on.", nil, nil},
	{Slots, Gauge, "slots", nil, workerOnly, "Tasks that this process works on at a time.", nil, nil},
	{BusySlots, Gauge, "slots", nil, workerOnly, "Tasks that this process has in hand.", nil, nil},

	// Models.
	{Calls, Counter, "calls", byModelOutcome, both, "Requests for a summary or for vectors, by how they ended; second tries and throttled ones count.", callOutcomes, nil},
	{CallSeconds, Histogram, "seconds", byModelOutcome, both, "Time of those requests; waiting for limits is none of it.", callOutcomes, slow},
	{InputTokens, Counter, "tokens", byModel, both, "Input tokens that were paid for.", nil, nil},
	{OutputTokens, Counter, "tokens", byModel, both, "Output tokens that were paid for.", nil, nil},
	{ReusedAnswers, Counter, "answers", byModel, both, "Answers found in the journal.", nil, nil},
	{RefusedAnswers, Counter, "answers", byModelOutcome, both, "Answers that a check refused, by reason; those that were asked for again count too.", refusals, nil},
	{ThrottledCalls, Counter, "calls", byModel, both, "Requests that an endpoint answered with 429, or with being overloaded.", nil, nil},
	{LimitWait, Counter, "seconds", byModel, both, "Time that calls have waited for limits, of the fleet or of the endpoint.", nil, nil},
	{CallsUnderWay, Gauge, "calls", byModel, both, "Requests of this process that are under way.", nil, nil},
	{CallsWaiting, Gauge, "calls", byModel, both, "Calls of this process that wait for limits.", nil, nil},
	{ConcurrencyLimit, Gauge, "calls", byModel, both, "Requests that may be under way at a time, as learned from 429s; absent while nothing bounds them.", nil, nil},

	// The servers that aerie needs.
	{StoreCalls, Counter, "calls", byOutcome, both, "Calls to the node store.", plainOutcomes, nil},
	{StoreCallSeconds, Histogram, "seconds", byOutcome, both, "Time of calls to the node store.", plainOutcomes, quick},
	{QueueCalls, Counter, "calls", byOutcome, both, "Calls to the queue and to the journal, plans and dead beside it.", plainOutcomes, nil},
	{QueueCallSeconds, Histogram, "seconds", byOutcome, both, "Time of those calls; waiting for a task is none.", plainOutcomes, quick},
	{StateCalls, Counter, "calls", byOutcome, both, "Calls to the state: barriers, builds, records.", plainOutcomes, nil},
	{StateCallSeconds, Histogram, "seconds", byOutcome, both, "Time of those calls.", plainOutcomes, quick},

	// Queries.
	{Queries, Counter, "queries", byCorpusOutcome, coordinatorOnly, "Queries that were answered, refused (a wrong request, or nothing to search) or failed.", queryOutcomes, nil},
	{QuerySeconds, Histogram, "seconds", byCorpusOutcome, coordinatorOnly, "Time of queries.", queryOutcomes, quick},
	{QueryHits, Histogram, "hits", byCorpus, coordinatorOnly, "Hits of each query that was answered.", nil, few},
	{Requests, Counter, "requests", []string{LabelRoute, LabelStatus}, coordinatorOnly, "Requests that the HTTP API has answered, by operation (extra: probes and metrics; openapi; none: no route) and status; 0: nobody read one.", nil, nil},

	{Ready, Gauge, "1", nil, both, "1 when every dependency answers, as asked for this reading or by a probe just before it, else 0.", nil, nil},
}

// stops lists the causes of each outcome of a build.
func stops() string {
	by := map[string][]string{}
	for _, s := range levels.Causes() {
		outcome := buildOutcomeOf[s.Status]
		by[outcome] = append(by[outcome], string(s.Cause))
	}
	var all []string
	for _, outcome := range buildOutcomes {
		if causes := by[outcome]; causes != nil {
			all = append(all, outcome+" ("+strings.Join(causes, ", ")+")")
		}
	}
	return strings.Join(all, ", ")
}
