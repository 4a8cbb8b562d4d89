package coap

import (
	"mime"
	"strconv"
	"strings"
)

// Content formats that the front-end itself writes and reads.
const (
	formatText   = 0
	formatLinks  = 40
	formatOctets = 42
	formatJSON   = 50
	formatCBOR   = 60
	// formatTopic is what draft-ietf-core-coap-pubsub-21 leaves open (TBD606).
	formatTopic = 606
	// noFormat is a message without one.
	noFormat = -1
)

// formats is IANA's table "CoAP Content-Formats": number, media type, coding.
var formats = []struct {
	number       int
	media        string
	contentCoded string
}{
	{formatText, "text/plain; charset=utf-8", ""},
	{16, `application/cose; cose-type="cose-encrypt0"`, ""},
	{17, `application/cose; cose-type="cose-mac0"`, ""},
	{18, `application/cose; cose-type="cose-sign1"`, ""},
	{19, "application/ace+cbor", ""},
	{21, "image/gif", ""},
	{22, "image/jpeg", ""},
	{23, "image/png", ""},
	{formatLinks, "application/link-format", ""},
	{41, "application/xml", ""},
	{formatOctets, "application/octet-stream", ""},
	{47, "application/exi", ""},
	{formatJSON, "application/json", ""},
	{51, "application/json-patch+json", ""},
	{52, "application/merge-patch+json", ""},
	{formatCBOR, "application/cbor", ""},
	{61, "application/cwt", ""},
	{62, "application/multipart-core", ""},
	{63, "application/cbor-seq", ""},
	{64, "application/edhoc+cbor-seq", ""},
	{65, "application/cid-edhoc+cbor-seq", ""},
	{96, `application/cose; cose-type="cose-encrypt"`, ""},
	{97, `application/cose; cose-type="cose-mac"`, ""},
	{98, `application/cose; cose-type="cose-sign"`, ""},
	{101, "application/cose-key", ""},
	{102, "application/cose-key-set", ""},
	{110, "application/senml+json", ""},
	{111, "application/sensml+json", ""},
	{112, "application/senml+cbor", ""},
	{113, "application/sensml+cbor", ""},
	{114, "application/senml-exi", ""},
	{115, "application/sensml-exi", ""},
	{140, "application/yang-data+cbor; id=sid", ""},
	{256, "application/coap-group+json", ""},
	{257, "application/concise-problem-details+cbor", ""},
	{258, "application/swid+cbor", ""},
	{271, "application/dots+cbor", ""},
	{272, "application/missing-blocks+cbor-seq", ""},
	{280, "application/pkcs7-mime; smime-type=server-generated-key", ""},
	{281, "application/pkcs7-mime; smime-type=certs-only", ""},
	{284, "application/pkcs8", ""},
	{285, "application/csrattrs", ""},
	{286, "application/pkcs10", ""},
	{287, "application/pkix-cert", ""},
	{290, "application/aif+cbor", ""},
	{291, "application/aif+json", ""},
	{310, "application/senml+xml", ""},
	{311, "application/sensml+xml", ""},
	{320, "application/senml-etch+json", ""},
	{322, "application/senml-etch+cbor", ""},
	{340, "application/yang-data+cbor", ""},
	{341, "application/yang-data+cbor; id=name", ""},
	{432, "application/td+json", ""},
	{433, "application/tm+json", ""},
	{10000, "application/vnd.ocf+cbor", ""},
	{10001, "application/oscore", ""},
	{10002, "application/javascript", ""},
	{11050, "application/json", "deflate"},
	{11060, "application/cbor", "deflate"},
	{11542, "application/vnd.oma.lwm2m+tlv", ""},
	{11543, "application/vnd.oma.lwm2m+json", ""},
	{11544, "application/vnd.oma.lwm2m+cbor", ""},
	{20000, "text/css", ""},
	{30000, "image/svg+xml", ""},
}

// otherFormat begins the content type of a number that the table has not.
const otherFormat = "application/vnd.coap.content-format; number="

// contentTypeOf is the content type and encoding of a Content-Format.
func contentTypeOf(number int) (media, coding string) {
	for i := range formats {
		if formats[i].number == number {
			return formats[i].media, formats[i].contentCoded
		}
	}
	return otherFormat + strconv.Itoa(number), ""
}

// formatOf is the Content-Format of a content type, noFormat when the table has
// none. Parameters must be those of the table; a charset of utf-8 goes without
// saying.
func formatOf(media, coding string) int {
	if media == "" {
		return noFormat
	}
	if n, ok := strings.CutPrefix(media, otherFormat); ok {
		if v, err := strconv.ParseUint(n, 10, 16); err == nil && coding == "" {
			return int(v)
		}
		return noFormat
	}
	for i := range formats {
		if formats[i].media == media && formats[i].contentCoded == coding {
			return formats[i].number
		}
	}
	wanted, ok := plainMedia(media)
	if !ok {
		return noFormat
	}
	for i := range formats {
		if formats[i].contentCoded != coding {
			continue
		}
		if m, _ := plainMedia(formats[i].media); m == wanted {
			return formats[i].number
		}
	}
	return noFormat
}

// plainMedia is a media type in one spelling, utf-8 left out.
func plainMedia(text string) (string, bool) {
	media, params, err := mime.ParseMediaType(text)
	if err != nil {
		return "", false
	}
	if strings.EqualFold(params["charset"], "utf-8") {
		delete(params, "charset")
	}
	return mime.FormatMediaType(media, params), true
}
