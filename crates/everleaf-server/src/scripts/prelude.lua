-- What scripts see instead of Lua's own globals. Called once for each state; nothing that a script
-- does here outlives it.
local native, modules = ...
local error, getmetatable, next, pairs, pcall, rawget, rawset, setmetatable, tostring, type, xpcall =
    error, getmetatable, next, pairs, pcall, rawget, rawset, setmetatable, tostring, type, xpcall
local caught, handled = native.caught, native.handled
local READONLY = "Attempt to modify a readonly table"

-- Tables that cannot be changed: scripts see an empty table in front of each.
local behind = {}

local function refuse()
    error(READONLY, 2)
end

local function readonly(t)
    local front = setmetatable({}, { __index = t, __newindex = refuse, __metatable = false })
    behind[front] = t
    return front
end

-- Errors that the server ends a script with are not for the script: `caught` raises them again.
local function results(ok, ...)
    if ok then
        return true, ...
    end
    return false, caught(...)
end

-- As Redis' pcall: of an error of a command the sentence only.
local function flattened(ok, ...)
    if ok then
        return true, ...
    end
    local value = caught(...)
    local sentence = type(value) == "table" and value.err
    if type(sentence) == "string" then
        value = sentence
    end
    return false, value
end

local function copied(t, more)
    local copy = {}
    for name, value in pairs(t) do
        copy[name] = value
    end
    for name, value in pairs(more) do
        copy[name] = value
    end
    return copy
end

local own = {
    _VERSION = _VERSION,
    assert = assert,
    collectgarbage = native.collectgarbage,
    error = error,
    gcinfo = gcinfo,
    getmetatable = getmetatable,
    ipairs = ipairs,
    load = native.load,
    loadstring = native.loadstring,
    next = next,
    pairs = pairs,
    rawequal = rawequal,
    select = select,
    tonumber = tonumber,
    tostring = tostring,
    type = type,
    unpack = native.unpack,
}

function own.pcall(...)
    return flattened(pcall(...))
end

function own.xpcall(f, handler)
    return results(xpcall(f, function(value)
        return handler(caught(value))
    end))
end

function own.rawget(t, name)
    return rawget(behind[t] or t, name)
end

function own.rawset(t, name, value)
    if behind[t] then
        error(READONLY, 0)
    end
    return rawset(t, name, value)
end

function own.setmetatable(t, meta)
    if behind[t] then
        error(READONLY, 0)
    end
    return setmetatable(t, meta)
end

own.string = copied(string, native.string)
own.math = copied(math, native.math)
own.table = copied(table, {})
own.os = { clock = os.clock }
own.coroutine = copied(coroutine, {})
local resume = coroutine.resume
function own.coroutine.resume(...)
    return results(resume(...))
end

local redis = modules.redis
for name, module in pairs(modules) do
    own[name] = module
end
for _, name in ipairs({ "string", "math", "table", "os", "coroutine" }) do
    own[name] = readonly(own[name])
end
for name in pairs(modules) do
    own[name] = readonly(own[name])
end
-- Methods of strings, for all that a script can reach.
local strings = getmetatable("")
strings.__index = behind[own.string]
strings.__metatable = readonly({ __index = own.string })

setmetatable(own, {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
})
local globals = readonly(own)
own._G = globals

local function run(f)
    return xpcall(f, handled)
end

-- Forgets what was put in front of what cannot be changed, past its check.
local function reset()
    own.KEYS, own.ARGV = nil, nil
    for front in pairs(behind) do
        local name = next(front)
        while name ~= nil do
            rawset(front, name, nil)
            name = next(front)
        end
    end
end

return globals, own, redis, run, reset
