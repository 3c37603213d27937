-- What scripts see instead of Lua's own globals. Called once for each state; nothing that a script
-- does here outlives it.
local native, modules = ...
local error, getmetatable, next, pairs, pcall, rawget, rawset, setmetatable, tostring, type, xpcall =
    error, getmetatable, next, pairs, pcall, rawget, rawset, setmetatable, tostring, type, xpcall
local find, lower, select, tonumber, unpack =
    string.find, string.lower, select, tonumber, unpack
local caught, handled = native.caught, native.handled
local READONLY = "Attempt to modify a readonly table"

-- Tables that cannot be changed: scripts see an empty table in front of each.
local behind = {}

local function refuse()
    error(READONLY, 2)
end

-- What scripts get for the metatables of these.
local protected = {}
setmetatable(protected, { __newindex = refuse, __metatable = protected })
behind[protected] = {}

local function readonly(t)
    local front = setmetatable({}, { __index = t, __newindex = refuse, __metatable = protected })
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
}

-- The library's own counts in C's `int`, beyond whose end it has no check.
local function place(value, at, default)
    if value == nil then
        return default
    end
    return tonumber(value)
        or error("bad argument #" .. at .. " to 'unpack' (number expected, got " .. type(value) .. ")", 3)
end

function own.unpack(...)
    local t, from, to = ...
    if type(t) ~= "table" then
        local got = select("#", ...) == 0 and "no value" or type(t)
        error("bad argument #1 to 'unpack' (table expected, got " .. got .. ")", 2)
    end
    from, to = place(from, 2, 1), place(to, 3, #t)
    if to < from then
        return
    elseif to - from >= native.unpacked or from < -2147483648 or to > 2147483646 then
        error("too many results to unpack", 2)
    end
    -- With fewer arguments there is room for more results.
    if from == 1 and to == #t then
        return unpack(t)
    end
    return unpack(t, from, to)
end

function own.pcall(...)
    return flattened(pcall(...))
end

local function handled_by(handler, value)
    return handler(caught(value))
end

-- Lua handles the error of a handler by the same handler, until its stack ends. So a handler has no
-- error: what it raises is what it returns.
function own.xpcall(f, handler)
    return results(xpcall(f, function(value)
        return select(2, pcall(handled_by, handler, value))
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

local missing = {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
}
setmetatable(own, missing)
local globals = readonly(own)
own._G = globals

local function run(f)
    return xpcall(f, handled)
end

-- Libraries. While the code of one runs, it sees `loading`, with which it registers functions; these
-- see what scripts see.
local registered
local loading = { redis = {} }
for _, name in ipairs(native.shared) do
    loading.redis[name] = redis[name]
end

local function wrong(sentence)
    error({ err = "ERR " .. sentence }, 0)
end

local function text(value, sentence)
    if type(value) ~= "string" and type(value) ~= "number" then
        wrong(sentence)
    end
    return tostring(value)
end

-- What a table of arguments says.
local function named(arguments)
    local made = { flags = {} }
    for name, value in pairs(arguments) do
        if name == "function_name" or name == "description" then
            made[name] = text(value, name .. " argument given to redis.register_function must be a string")
        elseif name == "callback" then
            if type(value) ~= "function" then
                wrong("callback argument given to redis.register_function must be a function")
            end
            made.callback = value
        elseif name == "flags" then
            if type(value) ~= "table" then
                wrong("flags argument to redis.register_function must be a table representing function flags")
            end
            for at = 1, #value do
                made.flags[at] = native.known_flags[value[at]] and value[at] or wrong("unknown flag given")
            end
        else
            wrong("unknown argument given to redis.register_function")
        end
    end
    if not made.function_name then
        wrong("redis.register_function must get a function name argument")
    elseif not made.callback then
        wrong("redis.register_function must get a callback argument")
    end
    return made
end

-- What two arguments say.
local function placed(name, callback)
    name = text(name, "first argument to redis.register_function must be a string")
    if type(callback) ~= "function" then
        wrong("second argument to redis.register_function must be a function")
    end
    return { function_name = name, callback = callback, flags = {} }
end

function loading.redis.register_function(...)
    local count, first, second = select("#", ...), ...
    local made
    if not registered then
        wrong("redis.register_function can only be called on FUNCTION LOAD command")
    elseif count < 1 or count > 2 then
        wrong("wrong number of arguments to redis.register_function")
    elseif count == 2 then
        made = placed(first, second)
    elseif type(first) == "table" then
        made = named(first)
    else
        wrong("calling redis.register_function with a single argument is only applicable to Lua "
            .. "table (representing named arguments).")
    end
    if not find(made.function_name, "^[A-Za-z0-9_]+$") then
        wrong(native.bad_name)
    end
    local name = lower(made.function_name)
    if registered.callbacks[name] then
        wrong("Function already exists in the library")
    end
    registered.callbacks[name] = made.callback
    registered[#registered + 1] = made
end

loading.redis = readonly(setmetatable(loading.redis, missing))
setmetatable(loading, missing)
local switch = { __index = own, __newindex = refuse, __metatable = protected }
local of_libraries = setmetatable({}, switch)
behind[of_libraries] = own

-- Runs the code of a library: whether it came to its end, what it raised, and what it registered.
local function read(f)
    local made = { callbacks = {} }
    registered, switch.__index = made, loading
    local ok, value = xpcall(f, handled)
    registered, switch.__index = nil, own
    return ok, value, made
end

local function run_function(f, name, keys, values)
    local ok, value, made = read(f)
    if not ok then
        return ok, value
    end
    local callback = made.callbacks[lower(name)]
    return xpcall(function()
        return callback(keys, values)
    end, handled)
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

return globals, own, redis, run, reset, { globals = of_libraries, read = read, run = run_function }
