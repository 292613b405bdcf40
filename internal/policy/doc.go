// Package policy holds the house rules that a program can check: which package may import which, and what no file may
// contain. It has tests only.
package policy
