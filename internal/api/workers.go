package api

import (
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Worker is a process that takes tasks.
type Worker struct {
	ID         string    `json:"id"`
	Version    string    `json:"version"`
	Slots      int       `json:"slots" doc:"summaries that it makes at a time"`
	Running    int       `json:"running" doc:"tasks in hand"`
	WaitingFor []string  `json:"waiting_for" doc:"such as an endpoint that asks for patience"`
	Started    time.Time `json:"started"`
	Seen       time.Time `json:"seen" doc:"when it told of itself last"`
}

// Coordinator is a process that plans builds and publishes trees.
type Coordinator struct {
	ID         string    `json:"id"`
	Version    string    `json:"version"`
	WaitingFor []string  `json:"waiting_for" doc:"such as a server that is away"`
	Started    time.Time `json:"started"`
	Seen       time.Time `json:"seen" doc:"when it told of itself last"`
}

// Workers is the JSON of aerie workers: who works now.
type Workers struct {
	Workers      []Worker      `json:"workers"`
	Coordinators []Coordinator `json:"coordinators"`
	Away         []string      `json:"away" doc:"a sentence for each server that can't be reached and that this was answered without"`
}

// WorkersOf returns those members that work now.
func WorkersOf(members []levels.Member, now time.Time) Workers {
	all := Workers{Workers: []Worker{}, Coordinators: []Coordinator{}, Away: []string{}}
	for _, m := range members {
		waiting := append([]string{}, m.WaitingFor...)
		switch {
		case !m.Alive(now):
		case m.Role == levels.RoleCoordinator:
			all.Coordinators = append(all.Coordinators, Coordinator{ID: m.ID, Version: m.Version, WaitingFor: waiting, Started: m.Started, Seen: m.At})
		case m.Role == levels.RoleWorker:
			all.Workers = append(all.Workers, Worker{
				ID: m.ID, Version: m.Version, Slots: m.Slots, Running: m.Running, WaitingFor: waiting, Started: m.Started, Seen: m.At,
			})
		}
	}
	return all
}

// Dead is the JSON of aerie dead: the buried tasks of the newest build.
type Dead struct {
	Corpus string      `json:"corpus"`
	Build  string      `json:"build" doc:"empty if there was none"`
	Causes []DeadCause `json:"causes"`
}

// DeadCause is the buried tasks of one cause.
type DeadCause struct {
	Cause   string        `json:"cause"`
	Tasks   int           `json:"tasks"`
	Example levels.Burial `json:"example"`
}
