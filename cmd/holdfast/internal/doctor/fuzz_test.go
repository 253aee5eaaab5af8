package doctor

import (
	"net"
	"testing"
)

// Whatever a server says of itself is read without a panic, and an address of a node can be dialled.
func FuzzReport(f *testing.F) {
	for _, text := range []string{
		"07c3 127.0.0.1:30004@31004,host slave e7d1 0 1426238317239 4 connected\ne7d1 :30001@31001 myself,master - 0 0 1 connected 0-5460 [5461->-07c3]\n",
		"a [::1]:7@8 master,noaddr - 0 0 1 connected", "# Server\r\nredis_version:7.0.15\r\nslave0:ip=127.0.0.1,port=6380,state=online,offset=98,lag=1\r\n", ":", "",
	} {
		f.Add(text, "127.0.0.1:7000")
	}
	f.Fuzz(func(t *testing.T, text, addr string) {
		for _, n := range parseNodes(text, addr) {
			if _, port, err := net.SplitHostPort(n.addr); n.addr != "" && (err != nil || port == "0") {
				t.Errorf("%q of %q: address %q: %v", text, addr, n.addr, err)
			}
		}
		for name, value := range parseFields(text) {
			parseReplica(value)
			if _, ok := (fields{name: value}).number(name); ok && value == "" {
				t.Errorf("%q: %q is a number", name, value)
			}
		}
	})
}
