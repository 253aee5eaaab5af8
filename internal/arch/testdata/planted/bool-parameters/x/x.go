package x

func Lock(name string, wait bool) {} // want

func (Engine) Renew(force bool) {} // want

func Held() bool       { return true }
func lock(wait bool)   {}
func (e inner) M(bool) {}

type Engine struct{}
type inner struct{}
