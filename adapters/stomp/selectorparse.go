package stomp

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a word, number, text or sign of a selector, at a byte of it.
type token struct {
	kind tokenKind
	text string // of words in upper case: see word
	raw  string
	at   int
}

type tokenKind uint8

const (
	endToken tokenKind = iota
	wordToken
	quotedToken // a name in double quotes
	textToken
	numberToken
	signToken
)

// lexer takes a selector apart.
type lexer struct {
	text string
	at   int
	err  *placeError
}

type placeError struct {
	at   int
	what string
}

func (l *lexer) fail(at int, format string, args ...any) token {
	if l.err == nil {
		l.err = &placeError{at, fmt.Sprintf(format, args...)}
	}
	l.at = len(l.text)
	return token{at: at}
}

func (l *lexer) next() token {
	for l.at < len(l.text) && strings.IndexByte(" \t\r\n\f", l.text[l.at]) >= 0 {
		l.at++
	}
	from := l.at
	if from == len(l.text) {
		return token{at: from}
	}
	c := l.text[from]
	switch {
	case c == '\'' || c == '"':
		return l.quoted(c)
	case isDigit(c) || c == '.' && from+1 < len(l.text) && isDigit(l.text[from+1]):
		return l.number()
	case strings.IndexByte("<>=+-*/(),", c) >= 0:
		n := 1
		if two := l.text[from:min(from+2, len(l.text))]; two == "<=" || two == ">=" || two == "<>" {
			n = 2
		}
		l.at += n
		return token{kind: signToken, text: l.text[from:l.at], at: from}
	}
	return l.word()
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// quoted reads a text in which a doubled quote stands for one.
func (l *lexer) quoted(quote byte) token {
	from := l.at
	var out strings.Builder
	for i := from + 1; i < len(l.text); i++ {
		if l.text[i] != quote {
			out.WriteByte(l.text[i])
			continue
		}
		if i+1 < len(l.text) && l.text[i+1] == quote {
			out.WriteByte(quote)
			i++
			continue
		}
		l.at = i + 1
		kind := textToken
		if quote == '"' {
			kind = quotedToken
		}
		return token{kind: kind, text: out.String(), raw: out.String(), at: from}
	}
	return l.fail(from, "the quote has no end")
}

func (l *lexer) number() token {
	from := l.at
	for l.at < len(l.text) {
		c := l.text[l.at]
		sign := (c == '+' || c == '-') && (l.text[l.at-1] == 'e' || l.text[l.at-1] == 'E') && l.at > from
		if !isDigit(c) && c != '.' && c != 'e' && c != 'E' && !sign {
			break
		}
		l.at++
	}
	text := l.text[from:l.at]
	if l.at < len(l.text) && strings.IndexByte("lLdDfF", l.text[l.at]) >= 0 {
		l.at++ // a Java suffix
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return l.fail(from, "not a number")
	}
	return token{kind: numberToken, text: text, at: from}
}

func (l *lexer) word() token {
	from := l.at
	for i, r := range l.text[from:] {
		if r == '_' || r == '$' || unicode.IsLetter(r) || i > 0 && (r == '.' || unicode.IsDigit(r)) {
			l.at = from + i + utf8.RuneLen(r)
			continue
		}
		break
	}
	if l.at == from {
		return l.fail(from, "a character that means nothing here")
	}
	raw := l.text[from:l.at]
	return token{kind: wordToken, text: strings.ToUpper(raw), raw: raw, at: from}
}

// selectorParser reads by descent; every step down is counted, so that hostile nesting
// ends in an error.
type selectorParser struct {
	lexer
	tok   token
	depth int
}

// maxDepth is how deep a selector may nest.
const maxDepth = 100

// fault is the error for the client, with the place marked.
func (p *selectorParser) fault(skipped int) error {
	at := min(p.err.at, len(p.text))
	from, to := max(0, at-30), min(len(p.text), at+30)
	before := strings.ToValidUTF8(p.text[from:at], "")
	after := strings.ToValidUTF8(p.text[at:to], "")
	return &fault{message: "invalid selector",
		detail: fmt.Sprintf("%s at byte %d, here: %s>>>%s", p.err.what, at+skipped+1, before, after)}
}

func (p *selectorParser) parse() expression {
	p.tok = p.next()
	e := p.or()
	if p.err == nil && p.tok.kind != endToken {
		p.fail(p.tok.at, "AND, OR or the end was expected")
	}
	return e
}

func (p *selectorParser) take() token {
	t := p.tok
	p.tok = p.next()
	return t
}

func (p *selectorParser) isWord(word string) bool {
	return p.tok.kind == wordToken && p.tok.text == word
}

func (p *selectorParser) isSign(sign string) bool {
	return p.tok.kind == signToken && p.tok.text == sign
}

// accept takes the word when it comes next.
func (p *selectorParser) accept(word string) bool {
	if !p.isWord(word) {
		return false
	}
	p.take()
	return true
}

func (p *selectorParser) want(ok bool, what string) {
	if ok {
		p.take()
	} else {
		p.fail(p.tok.at, "%s was expected", what)
	}
}

func (p *selectorParser) or() expression { return p.list("OR", p.and) }

func (p *selectorParser) and() expression { return p.list("AND", p.not) }

func (p *selectorParser) list(word string, part func() expression) expression {
	first := part()
	if !p.isWord(word) {
		return first
	}
	parts := []expression{first}
	for p.err == nil && p.accept(word) {
		parts = append(parts, part())
	}
	return both{parts, word == "OR"}
}

// deeper guards a step down.
func (p *selectorParser) deeper(f func() expression) expression {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.tok.at, "nested too deeply")
		return literal{}
	}
	defer func() { p.depth-- }()
	return f()
}

func (p *selectorParser) not() expression {
	if p.accept("NOT") {
		return p.deeper(func() expression { return not{p.not()} })
	}
	return p.predicate()
}

func (p *selectorParser) predicate() expression {
	left := p.sum()
	if p.tok.kind == signToken {
		return p.comparison(left)
	}
	if p.accept("IS") {
		negated := p.accept("NOT")
		p.want(p.isWord("NULL"), "NULL")
		return negate(isNull{left}, negated)
	}
	negated := p.accept("NOT")
	switch {
	case p.accept("BETWEEN"):
		low := p.sum()
		p.want(p.isWord("AND"), "AND")
		high := p.sum()
		return negate(between{left, low, high}, negated)
	case p.accept("IN"):
		return negate(p.in(left), negated)
	case p.accept("LIKE"):
		return negate(p.like(left), negated)
	case negated:
		p.fail(p.tok.at, "BETWEEN, IN or LIKE was expected")
	}
	return left
}

// comparison reads what may follow a sum.
func (p *selectorParser) comparison(left expression) expression {
	c := comparison{left: left}
	switch p.tok.text {
	case "=":
		c.same = true
	case "<>":
		c.less, c.more = true, true
	case "<":
		c.less = true
	case "<=":
		c.less, c.same = true, true
	case ">":
		c.more = true
	case ">=":
		c.more, c.same = true, true
	default:
		return left
	}
	p.take()
	c.right = p.sum()
	return c
}

func negate(e expression, negated bool) expression {
	if negated {
		return not{e}
	}
	return e
}

func (p *selectorParser) in(left expression) expression {
	p.want(p.isSign("("), "(")
	list := inList{left, map[string]struct{}{}}
	for p.err == nil {
		if p.tok.kind != textToken && p.tok.kind != numberToken {
			p.fail(p.tok.at, "a text in quotes was expected")
			break
		}
		list.list[p.take().text] = struct{}{}
		if !p.isSign(",") {
			break
		}
		p.take()
	}
	p.want(p.isSign(")"), "a comma or )")
	return list
}

func (p *selectorParser) like(left expression) expression {
	t := p.tok
	p.want(t.kind == textToken, "a pattern in quotes")
	var escape rune
	if p.accept("ESCAPE") {
		e := p.tok
		r, n := utf8.DecodeRuneInString(e.text)
		p.want(e.kind == textToken && n > 0 && n == len(e.text), "one character in quotes")
		escape = r
	}
	pattern, ok := newPattern(t.text, escape)
	if !ok {
		p.fail(t.at, "a pattern that ends in its escape character, or has more than %d characters around '_' without a '%%',", maxPiece)
	}
	return like{left, pattern}
}

func (p *selectorParser) sum() expression { return p.chain("+", "-", p.product) }

func (p *selectorParser) product() expression { return p.chain("*", "/", p.unary) }

// chain groups from the left. Its length counts as depth: evaluating it steps down as
// often.
func (p *selectorParser) chain(one, other string, part func() expression) expression {
	left := part()
	from := p.depth
	for p.err == nil && (p.isSign(one) || p.isSign(other)) {
		if p.depth++; p.depth > maxDepth {
			p.fail(p.tok.at, "nested too deeply")
			break
		}
		sign := p.take().text[0]
		left = arithmetic{left, part(), sign}
	}
	p.depth = from
	return left
}

func (p *selectorParser) unary() expression {
	switch {
	case p.isSign("-"):
		p.take()
		if p.tok.kind == numberToken {
			return p.numeral("-" + p.take().text)
		}
		return p.deeper(func() expression { return arithmetic{literal{whole(0)}, p.unary(), '-'} })
	case p.isSign("+"):
		p.take()
		return p.deeper(p.unary)
	}
	return p.primary()
}

func (p *selectorParser) primary() expression {
	switch t := p.tok; t.kind {
	case textToken:
		p.take()
		return literal{text(t.text)}
	case numberToken:
		p.take()
		return p.numeral(t.text)
	case quotedToken:
		p.take()
		return name(t.text)
	case wordToken:
		return p.wordOrName()
	case signToken:
		if t.text == "(" {
			p.take()
			e := p.deeper(p.or)
			p.want(p.isSign(")"), ")")
			return e
		}
	}
	p.fail(p.tok.at, "a value was expected")
	return literal{}
}

func (p *selectorParser) numeral(digits string) expression {
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return literal{whole(n)}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		p.fail(p.tok.at, "a number that is too large")
	}
	return literal{value{kind: floatValue, f: f}}
}

func (p *selectorParser) wordOrName() expression {
	switch p.tok.text {
	case "TRUE", "FALSE":
		return literal{truth(p.take().text == "TRUE")}
	case "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "NULL", "ESCAPE":
		p.fail(p.tok.at, "a value was expected")
		return literal{}
	}
	return name(p.take().raw)
}
