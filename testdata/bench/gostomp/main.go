// Command gostomp runs the server that comes with the go-stomp library, for
// the compare script.
//
//	gostomp -listen 127.0.0.1:61613
package main

import (
	"flag"
	"log"

	"github.com/go-stomp/stomp/v3/server"
)

func main() {
	address := flag.String("listen", "127.0.0.1:61613", "where to listen")
	flag.Parse()
	log.Fatal(server.ListenAndServe(*address))
}
