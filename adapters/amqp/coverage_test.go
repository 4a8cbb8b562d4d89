package amqp

import (
	"regexp"
	"testing"

	"entrepot/adapters/coverage"
)

func TestCoverage(t *testing.T) {
	coverage.Table{
		Row:         regexp.MustCompile(`^ (AMQP|RabbitMQ)-`),
		Transcripts: "../../testdata/amqp/*.txt",
		Clause:      regexp.MustCompile(`\[((?:AMQP|RabbitMQ)-[\w.-]+)\]`),
		Tests:       []string{"*_test.go", "frame/*_test.go"},
		Least:       55,
	}.Check(t)
}
