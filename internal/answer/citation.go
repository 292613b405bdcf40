package answer

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// citation finds the forms in which models cite: [1], [1, 2], [1-3], [Passage 1], [^1], 【1】, 【1†source】, ［1］.
var citation = regexp.MustCompile(`(?i)[\[【［]\s*` + number + `(?:\s*(?:,|;|、|&|and|und|et|y|-|–|—|to)\s*` + number + `)*(?:†[^\]】］\n]{0,40})?\s*[\]】］]`)

const number = `(?:(?:passages?|sources?|documents?|docs?|quellen?|n[or])\.?\s*)?[#^]?[0-9]{1,6}`

var numbers = regexp.MustCompile(`[0-9]+|[-–—]|to`)

// unclosed finds what may become a citation when more of the text is there.
var unclosed = regexp.MustCompile(`[\[【［][^\[\]【】［］\n]{0,60}$`)

// cited returns the numbers that a sentence cites, ascending, and whether each is one of 1 to n. Those that aren't are left
// out.
func cited(sentence string, n int) (numbers []int, exist bool) {
	exist = true
	numbers = []int{}
	for _, mark := range citation.FindAllString(sentence, -1) {
		for _, r := range ranges(mark) {
			if r[0] < 1 || r[1] > n || r[0] > r[1] {
				exist = false
			}
			for k := max(r[0], 1); k <= min(r[1], n); k++ {
				numbers = append(numbers, k)
			}
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), exist
}

// ranges returns the first and last number of each part of a citation.
func ranges(mark string) [][2]int {
	if i := strings.Index(mark, "†"); i >= 0 {
		mark = mark[:i]
	}
	var out [][2]int
	through := false
	for _, word := range numbers.FindAllString(strings.ToLower(mark), -1) {
		k, err := strconv.Atoi(word)
		switch {
		case err != nil:
			through = len(out) > 0
		case through:
			out[len(out)-1][1] = k
			through = false
		default:
			out = append(out, [2]int{k, k})
		}
	}
	return out
}
