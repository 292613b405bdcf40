// Package history lets many clients change and read a corpus at the same time, records what each of them was told, and judges the
// record: does an order of the operations exist in which every answer is right?
//
// Each document is a register of its own, whose versions come and go whole. What is allowed in between is said in the model (see
// model.go); the search for an order is done by github.com/anishathalye/porcupine. Readers of trees are judged as well: what one of
// them sees of a generation is all of it, and the same that every other one sees.
package history
