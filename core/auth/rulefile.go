package auth

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds on a file of rules, so that it is read and asked in bounded time.
const (
	maxRules    = 10_000
	maxRuleFile = 4 << 20 // bytes
	maxTold     = 10      // faults that are told at once
)

// ReadRules reads a file of rules. Errors name the file and the line.
func ReadRules(path string) (*Rules, error) {
	file, err := ReadSmallFile(path, maxRuleFile)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	r, err := ParseRules(file.Text)
	if err != nil {
		return nil, fmt.Errorf("rules: %s: %w", path, err)
	}
	return r, nil
}

// ParseRules reads rules, one a line: allow or deny, who, what, and on what:
//
//	allow user:ann        publish,subscribe  plant/%u/#
//	deny  anyone          subscribe          plant/+/secret
//	allow group:workers   consume            queue:orders*
//	allow group:operators all
//
// Who is user:NAME, group:NAME, anyone, authenticated or anonymous; a name with
// white space stands in double quotes. What is publish, subscribe, consume,
// declare, call, register, admin, several of them with commas between, or all.
// On what is a filter of topics in canonical text, queue:NAME, exchange:NAME or
// rpc:FILTER, to the end of the line; admin without one is all that operators
// do, else of a queue or of what is below $SYS, and all without one is
// everything. Lines that begin with # are comments. A file without rules
// denies everything. Errors name the line.
func ParseRules(text []byte) (*Rules, error) {
	if len(text) > maxRuleFile {
		return nil, fmt.Errorf("larger than %d bytes", maxRuleFile)
	}
	rules := &Rules{}
	var errs []error
	for i, line := range strings.Split(string(bytes.TrimPrefix(text, []byte("\ufeff"))), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		r, err := parseRule(line)
		if err == nil && rules.number == maxRules {
			err = fmt.Errorf("more than %d rules", maxRules)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", i+1, err))
			if len(errs) == maxTold || rules.number == maxRules {
				break
			}
			continue
		}
		r.line = i + 1
		rules.add(r)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return rules, nil
}

// add puts a rule on the shelves of all that it is about.
func (rs *Rules) add(r *rule) {
	rs.number++
	for kind := range rs.kinds {
		if !r.object.any && r.object.kind != ObjectKind(kind) {
			continue
		}
		for _, a := range r.actions {
			rs.kinds[kind][a].add(r)
		}
	}
}

func parseRule(line string) (*rule, error) {
	if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
		return nil, errors.New("not UTF-8 without NUL")
	}
	r := &rule{text: strings.Join(strings.Fields(line), " ")}
	verdict, rest := word(line)
	switch verdict {
	case "allow":
		r.allow = true
	case "deny":
	default:
		return nil, fmt.Errorf("begins with %.40q: a rule begins with allow or deny", verdict)
	}
	rest, err := r.parseWho(rest)
	if err != nil {
		return nil, err
	}
	actions, object := word(rest)
	if err := r.parseActions(actions); err != nil {
		return nil, err
	}
	if err := r.parseObject(object); err != nil {
		return nil, err
	}
	r.rank = r.object.rank()
	return r, nil
}

// word cuts the first word off.
func word(text string) (first, rest string) {
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], " \t")
	}
	return text, ""
}

// parseWho reads who a rule is for, and returns what follows.
func (r *rule) parseWho(text string) (rest string, err error) {
	first, rest := word(text)
	switch first {
	case "anyone":
		r.who = forAnyone
		return rest, nil
	case nobody, somebody:
		r.who, r.name = forState, first
		return rest, nil
	case "":
		return "", errors.New("who it is for is missing")
	}
	prefix, name, _ := strings.Cut(text, ":")
	switch prefix {
	case "user":
		r.who = forUser
	case "group":
		r.who = forGroup
	default:
		return "", fmt.Errorf("who is %.40q: user:NAME, group:NAME, anyone, authenticated or anonymous", first)
	}
	if r.name, rest, err = parseQuoted(name); err != nil {
		return "", err
	}
	if r.name == "" {
		return "", fmt.Errorf("%s: without a name", prefix)
	}
	return rest, nil
}

// parseQuoted reads a word, or a text in double quotes.
func parseQuoted(text string) (name, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		name, rest = word(text)
		return name, rest, nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("%.40s: the quote is not closed", text)
	}
	rest = text[len(quoted):]
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return "", "", fmt.Errorf("%.40s: a name ends at the quote", text)
	}
	name, err = strconv.Unquote(quoted)
	return name, strings.TrimLeft(rest, " \t"), err
}

// actionNames are the actions as rules write them.
func actionNames() []string {
	var list []string
	for a := Publish; a <= Admin; a++ {
		list = append(list, a.String())
	}
	return list
}

func (r *rule) parseActions(text string) error {
	switch text {
	case "":
		return errors.New("what it is about is missing: publish, subscribe, consume, declare, call, register, admin or all")
	case "all":
		r.all = true
		return nil
	}
	for _, name := range strings.Split(text, ",") {
		a, err := ParseAction(name)
		if err != nil {
			return err
		}
		r.actions = append(r.actions, a)
	}
	return nil
}

// ParseAction reads an action's name.
func ParseAction(name string) (Action, error) {
	i := slices.Index(actionNames(), name)
	if i < 0 {
		return 0, fmt.Errorf("no action %.40q: %s, or all", name, strings.Join(actionNames(), ", "))
	}
	return Action(i), nil
}

// Actions are what can be done with a kind of object.
func (k ObjectKind) Actions() []Action {
	return [...][]Action{
		Topic:     {Publish, Subscribe, Declare, Admin},
		Queue:     {Publish, Consume, Declare, Admin},
		Exchange:  {Publish, Subscribe, Declare},
		Procedure: {Call, Register},
	}[k]
}

func (r *rule) parseObject(text string) (err error) {
	admin := slices.Contains(r.actions, Admin)
	switch {
	case text == "" && r.all:
		r.object.any = true
		r.actions = []Action{Publish, Subscribe, Consume, Declare, Call, Register, Admin}
		return nil
	case text == "" && admin && len(r.actions) == 1:
		r.object.any = true
		return nil
	case text == "":
		return errors.New("on what it is done is missing: a topic filter, queue:NAME, exchange:NAME or rpc:FILTER")
	}
	if r.object, err = parsePattern(text); err != nil {
		return err
	}
	if admin && r.object.kind == Topic && r.object.filter.First() != "$SYS" {
		return fmt.Errorf("%q: admin is of everything, without more, or of topics below $SYS, or of queues", text)
	}
	may := r.object.kind.Actions()
	if r.all { // but what operators do is said by its name
		r.actions = slices.DeleteFunc(may, func(a Action) bool { return a == Admin })
	}
	for _, a := range r.actions {
		if !slices.Contains(may, a) {
			return fmt.Errorf("%s goes not with %q", a, text)
		}
	}
	return nil
}
