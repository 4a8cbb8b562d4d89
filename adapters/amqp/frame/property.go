package frame

// The flags of a content header: which properties follow, in this order
// (AMQP 0-9-1, class basic).
const (
	ContentType     uint16 = 1 << (15 - iota) // short text
	ContentEncoding                           // short text
	HeaderTable                               // table
	DeliveryMode                              // octet: 1, or 2 for what is kept over a restart
	Priority                                  // octet
	CorrelationID                             // short text
	ReplyTo                                   // short text
	Expiration                                // short text, milliseconds
	MessageID                                 // short text
	Timestamp                                 // 64 bits, seconds since 1970
	Type                                      // short text
	UserID                                    // short text
	AppID                                     // short text
	ClusterID                                 // short text, without meaning
	// Unknown are the flags that have none, and the one that announces more.
	Unknown uint16 = 3
)
