package stomp

// headerID names the headers that this front-end understands; otherHeader is the
// rest.
type headerID uint8

const (
	otherHeader headerID = iota
	acceptVersionHeader
	ackHeader
	amqDelayHeader
	amqPrefetchHeader
	amqSubscriptionHeader
	appIDHeader
	autoDeleteHeader
	clientIDHeader
	contentEncodingHeader
	contentLengthHeader
	contentTypeHeader
	correlationIDHeader
	destinationHeader
	durableHeader
	durableNameHeader
	exclusiveHeader
	expirationHeader
	expiresHeader
	heartBeatHeader
	hostHeader
	idHeader
	loginHeader
	messageIDHeader
	passcodeHeader
	persistentHeader
	prefetchCountHeader
	priorityHeader
	receiptHeader
	replyToHeader
	requeueHeader
	retainHeader
	selectorHeader
	subscriptionHeader
	timestampHeader
	transactionHeader
	typeHeader
	userIDHeader
	xDelayHeader
	xMessageIDHeader
	xPrefetchHeader
	xQueueNameHeader
	xRetainHeader
	headerCount
)

// headerSet holds which headers a frame has.
type headerSet uint64

func (id headerID) set() headerSet { return 1 << id }

func (s headerSet) holds(id headerID) bool { return s&(1<<id) != 0 }

// headerIDOf finds a header by its name.
func headerIDOf(name []byte) headerID {
	switch string(name) {
	case "destination":
		return destinationHeader
	case "content-length":
		return contentLengthHeader
	case "content-type":
		return contentTypeHeader
	case "receipt":
		return receiptHeader
	case "id":
		return idHeader
	case "message-id":
		return messageIDHeader
	case "subscription":
		return subscriptionHeader
	case "transaction":
		return transactionHeader
	case "persistent":
		return persistentHeader
	case "ack":
		return ackHeader
	case "accept-version":
		return acceptVersionHeader
	case "host":
		return hostHeader
	case "login":
		return loginHeader
	case "passcode":
		return passcodeHeader
	case "heart-beat":
		return heartBeatHeader
	case "client-id":
		return clientIDHeader
	case "selector":
		return selectorHeader
	case "prefetch-count":
		return prefetchCountHeader
	case "x-prefetch-count":
		return xPrefetchHeader
	case "activemq.prefetchSize":
		return amqPrefetchHeader
	case "activemq.subscriptionName":
		return amqSubscriptionHeader
	case "durable-subscription-name":
		return durableNameHeader
	case "durable":
		return durableHeader
	case "auto-delete":
		return autoDeleteHeader
	case "exclusive":
		return exclusiveHeader
	case "requeue":
		return requeueHeader
	case "x-queue-name":
		return xQueueNameHeader
	}
	return messageHeaderID(name)
}

// messageHeaderID is headerIDOf for the headers that describe a message.
func messageHeaderID(name []byte) headerID {
	switch string(name) {
	case "content-encoding":
		return contentEncodingHeader
	case "correlation-id":
		return correlationIDHeader
	case "reply-to":
		return replyToHeader
	case "expiration":
		return expirationHeader
	case "expires":
		return expiresHeader
	case "priority":
		return priorityHeader
	case "type":
		return typeHeader
	case "app-id":
		return appIDHeader
	case "timestamp":
		return timestampHeader
	case "user-id":
		return userIDHeader
	case "retain":
		return retainHeader
	case "x-retain":
		return xRetainHeader
	case "x-message-id":
		return xMessageIDHeader
	case "x-delay":
		return xDelayHeader
	case "AMQ_SCHEDULED_DELAY":
		return amqDelayHeader
	}
	return otherHeader
}
