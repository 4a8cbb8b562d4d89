package conf

import (
	"errors"
	"fmt"
	"strings"
)

// farthest is how many letters may differ in a key that is suggested.
const farthest = 3

// unknown is the error for a key or section that nobody knows, with the one
// that was probably meant.
func unknown(key string, isTable bool, known []string) error {
	if meant := closest(key, isTable, known); meant != "" {
		return fmt.Errorf("no such %s; is %s meant?", kind(isTable), meant)
	}
	return errors.New("no such " + kind(isTable))
}

func kind(isTable bool) string {
	if isTable {
		return "section"
	}
	return "key"
}

// closest is the known key of the same name in another section, when there is
// just one, or else the one with the fewest other letters.
func closest(key string, isTable bool, known []string) string {
	best, least := "", farthest+1
	var elsewhere []string
	for _, k := range candidates(isTable, known) {
		if !isTable && strings.HasSuffix(k, "."+last(key)) {
			elsewhere = append(elsewhere, k)
		}
		if d := distance(key, k); d < least && d < len(k)/2 {
			best, least = k, d
		}
	}
	if best == "" && len(elsewhere) == 1 {
		return elsewhere[0]
	}
	return best
}

// candidates are the known keys, or all sections that they stand in.
func candidates(isTable bool, known []string) []string {
	if !isTable {
		return known
	}
	var sections []string
	for _, k := range known {
		for i, r := range k {
			if r == '.' {
				sections = append(sections, k[:i])
			}
		}
	}
	return sections
}

func last(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// distance counts the letters to insert, take out or replace to get from a to
// b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
