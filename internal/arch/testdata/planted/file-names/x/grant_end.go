package x // want

func (g *storeGrant) over() {}
