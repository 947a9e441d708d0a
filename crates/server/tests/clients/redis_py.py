"""What a program that uses redis-py does, against Foreshore. Arguments: port, protocol (2 or 3). Prints "all is well"."""

import sys
import threading

import redis

port, protocol = int(sys.argv[1]), int(sys.argv[2])
db = redis.Redis(port=port, protocol=protocol, decode_responses=True, client_name="test", socket_timeout=60)


def values():
    assert db.ping() and db.echo("hello") == "hello"
    assert db.set("greeting", "hello") and db.get("greeting") == "hello"
    assert db.set("greeting", "again", nx=True) is None and db.set("greeting", "hi", xx=True, get=True) == "hello"
    assert db.get("absent") is None and db.exists("greeting", "absent") == 1
    assert db.mset({"a": 1, "b": 2}) and db.mget("a", "x", "b") == ["1", None, "2"]
    assert not db.msetnx({"a": 3, "c": 3}) and db.setnx("c", "3") and db.getset("c", "4") == "3"
    assert db.incr("counter") == 1 and db.incrby("counter", 41) == 42 and db.decr("counter") == 41
    assert db.append("a", "0") == 2 and db.strlen("a") == 2 and db.getdel("a") == "10"
    assert db.type("b") == "string" and db.ttl("b") == -1 and db.ttl("a") == -2
    assert db.delete("b", "c", "absent") == 2 and db.unlink("counter") == 1
    binary = redis.Redis(port=port, protocol=protocol)
    assert binary.set(b"\0\r\n", b"\xff\0") and binary.get(b"\0\r\n") == b"\xff\0" and binary.delete(b"\0\r\n")


def many():
    with db.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.set(f"row:{n:04}", n)
        assert all(pipe.execute())
    assert sorted(db.scan_iter(match="row:*", count=100)) == [f"row:{n:04}" for n in range(1000)]
    assert db.keys("row:000?") == [f"row:{n:04}" for n in range(10)]
    assert db.dbsize() == 1001
    assert db.execute_command("KV.RANGE", "[row:0007", "+", "LIMIT", 1) == ["row:0007", "7"]


def transactions():
    with db.pipeline() as pipe:
        pipe.set("x", 1).incr("x").get("x")
        assert pipe.execute() == [True, 2, "2"]
    with db.pipeline() as pipe:
        pipe.watch("x")
        db.set("x", 10)
        pipe.multi()
        pipe.incr("x")
        try:
            pipe.execute()
            raise AssertionError("somebody else has changed x")
        except redis.WatchError:
            pass
    counters = [threading.Thread(target=count_up) for _ in range(4)]
    [counter.start() for counter in counters]
    [counter.join() for counter in counters]
    assert db.get("counted") == "100"


def count_up():
    own = redis.Redis(port=port, protocol=protocol, decode_responses=True)
    for _ in range(25):
        own.transaction(lambda pipe: (pipe.multi(), pipe.incr("counted")), "counted")


def errors():
    for refused, said in [
        (lambda: db.incr("greeting"), "not an integer"),
        (lambda: db.expire("greeting", 10), "expire"),
        (lambda: db.set("greeting", "x", ex=10), "expire"),
        (lambda: db.lpush("list", 1), "unknown command"),
        (lambda: db.set("k" * 2000, "v"), "at most 1024"),
    ]:
        try:
            refused()
            raise AssertionError(f"expected an error about {said!r}")
        except redis.ResponseError as error:
            assert said in str(error), error
    assert db.get("greeting") == "hi"


def server():
    assert db.client_getname() == "test" and db.client_id() > 0
    assert any(client["name"] == "test" for client in db.client_list())
    assert db.info()["redis_mode"] == "standalone" and db.info("keyspace")["db0"]["keys"] > 1000
    assert db.config_get("maxmemory") == {"maxmemory": "0"} and db.command_count() > 50
    assert "get" in db.command() and db.memory_usage("greeting") > 0
    assert db.bgsave() and isinstance(db.slowlog_get(), list)
    other = redis.Redis(port=port, protocol=protocol, db=3, decode_responses=True)
    assert other.get("greeting") is None and other.set("greeting", "db3") and db.get("greeting") == "hi"
    assert other.flushdb() and other.dbsize() == 0


values()
many()
transactions()
errors()
server()
print("all is well")
