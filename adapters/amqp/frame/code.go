package frame

// Code is a reply code (AMQP 0-9-1, 1.2).
type Code uint16

// The reply codes.
const (
	ReplySuccess       Code = 200
	ContentTooLarge    Code = 311
	NoRoute            Code = 312
	NoConsumers        Code = 313
	ConnectionForced   Code = 320
	InvalidPath        Code = 402
	AccessRefused      Code = 403
	NotFound           Code = 404
	ResourceLocked     Code = 405
	PreconditionFailed Code = 406
	FrameError         Code = 501
	SyntaxError        Code = 502
	CommandInvalid     Code = 503
	ChannelError       Code = 504
	UnexpectedFrame    Code = 505
	ResourceError      Code = 506
	NotAllowed         Code = 530
	NotImplemented     Code = 540
	InternalError      Code = 541
)

var codes = map[Code]struct {
	name string
	hard bool
}{
	ReplySuccess:       {"REPLY_SUCCESS", false},
	ContentTooLarge:    {"CONTENT_TOO_LARGE", false},
	NoRoute:            {"NO_ROUTE", false},
	NoConsumers:        {"NO_CONSUMERS", false},
	ConnectionForced:   {"CONNECTION_FORCED", true},
	InvalidPath:        {"INVALID_PATH", true},
	AccessRefused:      {"ACCESS_REFUSED", false},
	NotFound:           {"NOT_FOUND", false},
	ResourceLocked:     {"RESOURCE_LOCKED", false},
	PreconditionFailed: {"PRECONDITION_FAILED", false},
	FrameError:         {"FRAME_ERROR", true},
	SyntaxError:        {"SYNTAX_ERROR", true},
	CommandInvalid:     {"COMMAND_INVALID", true},
	ChannelError:       {"CHANNEL_ERROR", true},
	UnexpectedFrame:    {"UNEXPECTED_FRAME", true},
	ResourceError:      {"RESOURCE_ERROR", true},
	NotAllowed:         {"NOT_ALLOWED", true},
	NotImplemented:     {"NOT_IMPLEMENTED", true},
	InternalError:      {"INTERNAL_ERROR", true},
}

// String is the name that clients read in reply texts.
func (c Code) String() string { return codes[c].name }

// Hard tells whether the connection ends, not only the channel.
func (c Code) Hard() bool { return codes[c].hard }
