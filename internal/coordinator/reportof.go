package coordinator

import "github.com/aerie-rag/aerie/internal/levels"

// ReportOf says what a build did, from its durable state alone: for a process that watched while another one built.
func (c *Coordinator) ReportOf(state *levels.State) Report {
	return (&run{Coordinator: c, state: state}).report()
}
