package redisstate

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// scripts are the Lua scripts, each from the file of its name.
type scripts struct {
	open, mark, count, positions, clear   *redis.Script
	acquire, renew, release, save, holder *redis.Script
	check                                 *redis.Script
	update, complete                      *redis.Script
	take, give                            *redis.Script
	reserve, settle, resume               *redis.Script
}

func loadScripts() scripts {
	load := func(name string) *redis.Script {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic("redisstate: script " + name + " isn't embedded: " + err.Error())
		}
		return redis.NewScript(string(text))
	}
	return scripts{
		open: load("open"), mark: load("mark"), count: load("count"), positions: load("positions"), clear: load("clear"),
		acquire: load("acquire"), renew: load("renew"), release: load("release"), save: load("save"), holder: load("holder"),
		check:  load("check"),
		update: load("update"), complete: load("complete"),
		take: load("take"), give: load("give"),
		reserve: load("reserve"), settle: load("settle"), resume: load("resume"),
	}
}
