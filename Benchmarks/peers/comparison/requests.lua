-- What wrk sends. Arguments: the file of requests, the mode.
--
-- A line of the file is a request: method, path, fields ("Name: value", with \1 between them) and body, with tabs
-- between. Mode "plain" sends them in turn. Mode "conditional" is for a server whose answers repeat the name of the
-- request and have its new version: every write has the version of the answer before it, and no account has two
-- writes under way. A body that has "########" has a number there that changes with every request.

local count = 0

function setup(thread)
    thread:set("index", count)
    count = count + 1
    thread:set("threads", tonumber(os.getenv("WRK_THREADS")))
end

local entries, free, prepared, versions, place, sent = {}, {}, {}, {}, 0, 0
local conditional = false
local lower = {}

local function read(line)
    local method, path, fields, body = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$")
    local entry = { method = method, path = path, fields = {}, body = body }
    for field in fields:gmatch("[^\1]+") do
        local name, value = field:match("^([^:]*): (.*)$")
        entry.fields[name] = value
    end
    if body == "" then entry.body = nil end
    return entry
end

function init(arguments)
    conditional = arguments[2] == "conditional"
    local number = 0
    for line in io.lines(arguments[1]) do
        if number % threads == index then
            local entry = read(line)
            entries[#entries + 1] = entry
            free[#free + 1] = #entries
            versions[#entries] = entry.fields["If-Match"]
            if not (entry.body and entry.body:find("########", 1, true)) then
                prepared[#entries] = wrk.format(entry.method, entry.path, entry.fields, entry.body)
            end
        end
        number = number + 1
    end
    if not conditional then response = nil end
end

local function body(entry)
    if not entry.body then return nil end
    sent = sent + 1
    return (entry.body:gsub("########", string.format("%08d", sent), 1))
end

function request()
    if not conditional then
        place = place % #entries + 1
        local ready = prepared[place]
        if ready then return ready end
        local entry = entries[place]
        return wrk.format(entry.method, entry.path, entry.fields, body(entry))
    end
    -- Taken from the front, given back at the end: each account has its turn.
    place = place + 1
    local chosen = free[place]
    free[place] = nil
    local entry = entries[chosen]
    entry.fields["If-Match"] = versions[chosen]
    entry.fields["EntitlementSync-Request-ID"] = tostring(chosen)
    return wrk.format(entry.method, entry.path, entry.fields, body(entry))
end

local last = 0

function response(status, headers, _)
    if last == 0 then last = #entries end
    local chosen, version
    for name, value in pairs(headers) do
        local known = lower[name]
        if known == nil then
            known = name:lower()
            lower[name] = known
        end
        if known == "entitlementsync-request-id" then chosen = tonumber(value) end
        if known == "etag" then version = value end
    end
    if not chosen then return end
    if version then versions[chosen] = version end
    last = last + 1
    free[last] = chosen
end

-- For a program to read.
function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format(
        "RESULT %d %d %d %d %d %d %d %d %d %d\n", summary.requests, summary.duration, errors.connect, errors.read,
        errors.write, errors.status, errors.timeout, latency:percentile(50), latency:percentile(99),
        latency:percentile(99.9)))
end
