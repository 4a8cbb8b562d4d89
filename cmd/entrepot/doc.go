// Command entrepot is the broker and its tools.
//
// main.go turns a command line into an exit code, and signals into the end of
// a context; root.go lists the commands. serve.go wires the broker together in
// reading order, with front.go for the addresses, gc.go for its memory, kept.go for the disk and access.go
// for users and rights; publish.go and subscribe.go are the clients, passwd.go
// edits the file of users (ask.go asks for secrets), token.go and tokenkey.go make tokens and keys. backup.go asks a running broker for a backup, which
// it finds by control.go; restore.go is for data directories of none.
//
// Exit codes: 0 done, 1 failed on the way, 2 a command line or settings that
// make no sense.
package main
