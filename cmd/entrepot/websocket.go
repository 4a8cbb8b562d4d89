package main

import (
	"log/slog"

	"entrepot/adapters"
	"entrepot/adapters/admin"
	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	"entrepot/adapters/wamp"
	"entrepot/conf"
)

// carry lets the protocols that are open in by WebSocket: at /ws by the
// sub-protocol that the client names, and each at a path of its own.
func carry(web *admin.Server, cfg conf.Config, log *slog.Logger, m *mqtt.Server, s *stomp.Server, w *wamp.Server) {
	ws := adapters.NewWebSocket(cfg.WebSocket, log)
	ws.Visit = web.Visit
	var all []adapters.Carried
	unnamed := map[string]adapters.Carried{}
	add := func(path string, listen []string, c adapters.Carried) {
		if addresses, _ := adapters.ParseAddresses(listen, adapters.OverTCP); len(addresses) > 0 {
			web.Handle(path, ws.Only(c))
			all = append(all, c)
			unnamed[path[1:]] = c
		}
	}
	add("/mqtt", cfg.MQTT.Listen, adapters.Carried{Names: []string{"mqtt", "mqttv3.1"}, Serve: m.ServeConn})
	add("/stomp", cfg.STOMP.Listen, adapters.Carried{
		Names: []string{"v12.stomp", "v11.stomp", "v10.stomp"}, Serve: s.ServeConn, Text: true,
	})
	if cfg.WAMP.Enabled {
		all = append(all, adapters.Carried{Names: wamp.Names(), ServeFrames: w.ServeFrames})
		web.Page(wamp.Realm(cfg.WAMP))
	}
	if c, ok := unnamed[cfg.WebSocket.Unnamed]; ok {
		web.Handle("/ws", ws.AnyOr(c, all...))
		return
	}
	web.Handle("/ws", ws.Any(all...))
}
