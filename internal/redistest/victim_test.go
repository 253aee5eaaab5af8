package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// victimRole in the environment makes the test binary a process that launches a
// server and waits to be killed.
const victimRole = "REDISTEST_VICTIM"

func victim() {
	s, err := Launch()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop()
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
}

// A killed test process leaves no server on Linux. Elsewhere the test only checks that a process
// that ends in order stops its server.
func TestServerEndsWithItsProcess(t *testing.T) {
	cmd, stdin, stdout, err := StartSelf(os.Stderr, victimRole+"=1")
	if err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr = strings.TrimSpace(addr)
	if err := ping(addr); err != nil {
		t.Fatalf("%s: %v", addr, err)
	}
	if runtime.GOOS == "linux" {
		_ = cmd.Process.Kill()
	}
	stdin.Close()
	_ = cmd.Wait() // it was killed

	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-look.C {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Fatal("the server outlives the process that started it")
}
