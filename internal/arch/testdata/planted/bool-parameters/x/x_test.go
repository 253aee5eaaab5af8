package x

func Check(ok bool) {}
