package mqtt

import (
	"regexp"
	"testing"

	"entrepot/adapters/coverage"
)

func TestCoverage(t *testing.T) {
	coverage.Table{
		Row:         regexp.MustCompile(`^ MQTT`),
		Transcripts: "../../testdata/mqtt/*.txt",
		Clause:      regexp.MustCompile(`\[(MQTT3?-[\d.]+-\d+)\]`),
		Tests:       []string{"*_test.go"},
		Open:        []string{"not done: ", "not needed: "},
		Least:       350,
	}.Check(t)
}
