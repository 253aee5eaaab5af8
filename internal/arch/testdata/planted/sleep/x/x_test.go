package x

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestReal(t *testing.T) {
	time.Sleep(1) // want
	<-time.After(1)
}

func TestVirtual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1)
	})
	time.Sleep(1) // want
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
